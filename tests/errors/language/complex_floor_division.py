import retrograd as rg
from retrograd import reversible


@reversible
def f(z: complex, w: complex):
    z += w // 2


f(0j, 1j)
