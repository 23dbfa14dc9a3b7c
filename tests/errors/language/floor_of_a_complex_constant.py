import retrograd as rg
from retrograd import reversible


@reversible
def f(z: complex):
    z += rg.floor(1.5 + 2j)


f(0j)
