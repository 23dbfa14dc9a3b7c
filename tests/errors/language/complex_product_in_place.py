import retrograd as rg
from retrograd import reversible


@reversible
def f(z: complex, w: complex):
    z *= w


f(1j, 2j)
