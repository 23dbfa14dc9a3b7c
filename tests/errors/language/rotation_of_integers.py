import retrograd as rg
from retrograd import reversible


@reversible
def f(m: int, n: int):
    rg.rot(m, n, 0.5)


f(1, 2)
