import retrograd as rg
from retrograd import reversible


@reversible
def f(c: bool):
    rg.neg(c)


f(True)
