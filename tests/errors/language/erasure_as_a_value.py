import retrograd as rg
from retrograd import reversible


@reversible
def f(y: int, x: int):
    y += rg.erase(x)


f(0, 1)
