import retrograd as rg
from retrograd import reversible


@reversible
def f(y: int, n: int):
    t = rg.zeros(n)
    y += len(t)


f(0, -1)
