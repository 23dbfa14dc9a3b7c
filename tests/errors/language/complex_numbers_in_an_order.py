import retrograd as rg
from retrograd import reversible


@reversible
def f(z: complex, w: complex):
    if z < w:
        z += 1


f(1j, 2j)
