import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += rg.abs(x)


f(0.0, -1.0)
