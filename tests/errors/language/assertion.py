import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    assert x > 0
    y += rg.log(x)


f(0.0, -1.5)
