import retrograd as rg
from retrograd import reversible


@reversible
def f(y: int, n: int):
    t = rg.zeros(n, 2)
    y += t.shape[0]


f(0, 3)
