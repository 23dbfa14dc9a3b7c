import retrograd as rg
from retrograd import reversible


@reversible
def f(z: complex):
    z += z * 2


f(1j)
