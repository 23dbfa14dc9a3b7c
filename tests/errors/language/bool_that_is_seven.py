import retrograd as rg
from retrograd import reversible


@reversible
def f(b: bool):
    rg.flip(b)


f(7)
