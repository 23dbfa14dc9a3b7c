import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += rg.sqrt(x - 1)


f(0.0, 0.5)
