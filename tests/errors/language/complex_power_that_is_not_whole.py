import retrograd as rg
from retrograd import reversible


@reversible
def f(z: complex, w: complex):
    z += w ** 0.5


f(0j, 1j)
