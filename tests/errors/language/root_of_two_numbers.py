import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += rg.sqrt(x, 2)


f(1.0, 2.0)
