import retrograd as rg
from retrograd import reversible


@reversible
def f(x: int, y: int):
    rg.cswap(x, y)


f(0, 1)
