import retrograd as rg
from retrograd import reversible


@reversible
def f(z: complex):
    z.imag += abs(z)


f(1j)
