import retrograd as rg
from retrograd import reversible


@reversible
def f(x: int):
    rg.erase(x * 2)


f(1)
