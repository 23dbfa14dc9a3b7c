import retrograd as rg
from retrograd import reversible


@reversible
def f(x: int):
    rg.swap(x)


f(0)
