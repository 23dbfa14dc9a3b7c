import retrograd as rg
from retrograd import reversible


@reversible
def f(x: int):
    rg.rol(x)


f(1)
