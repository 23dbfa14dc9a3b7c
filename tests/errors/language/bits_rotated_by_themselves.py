import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int):
    rg.rol(n, n)


f(1)
