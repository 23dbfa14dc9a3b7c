import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += rg.atan2(x)


f(0.0, 1.0)
