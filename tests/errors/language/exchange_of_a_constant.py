import retrograd as rg
from retrograd import reversible


@reversible
def f(x: int):
    rg.swap(x, 1)


f(0)
