import retrograd as rg
from retrograd import reversible


@reversible
def f(z: complex):
    z += 1


f("1j")
