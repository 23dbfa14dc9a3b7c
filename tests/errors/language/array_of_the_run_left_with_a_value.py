import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int):
    t = rg.zeros(n)
    t[0] += 1


f(3)
