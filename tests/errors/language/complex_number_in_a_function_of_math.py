import math

from retrograd import reversible


@reversible
def f(y: complex, z: complex):
    y += math.sqrt(z)


f(0j, 1j)
