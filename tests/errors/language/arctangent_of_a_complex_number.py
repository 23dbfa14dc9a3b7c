import retrograd as rg
from retrograd import reversible


@reversible
def f(z: complex, w: complex):
    z += rg.atan(w)


f(0j, 1j)
