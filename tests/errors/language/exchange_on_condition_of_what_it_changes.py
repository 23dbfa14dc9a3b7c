import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed, y: fixed):
    rg.cswap(x > y, x, y)


f(1.0, 2.0)
