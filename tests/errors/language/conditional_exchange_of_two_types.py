import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(c: bool, x: int, y: fixed):
    rg.cswap(c, x, y)


f(True, 0, 1.0)
