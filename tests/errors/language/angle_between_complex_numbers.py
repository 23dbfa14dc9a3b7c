import retrograd as rg
from retrograd import reversible


@reversible
def f(z: complex, v: complex, w: complex):
    z += rg.atan2(v, w)


f(0j, 1j, 2j)
