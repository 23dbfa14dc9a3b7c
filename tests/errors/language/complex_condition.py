import retrograd as rg
from retrograd import reversible


@reversible
def f(z: complex, w: complex):
    if w:
        z += 1


f(0j, 1j)
