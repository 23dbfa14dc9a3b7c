import retrograd as rg
from retrograd import reversible


@reversible
def f(z: complex, w: complex):
    z += 1 / w


f(0j, 0j)
