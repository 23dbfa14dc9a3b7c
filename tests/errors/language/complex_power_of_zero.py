import retrograd as rg
from retrograd import reversible


@reversible
def f(z: complex, w: complex):
    z += w ** 0.25


f(1j, 0j)
