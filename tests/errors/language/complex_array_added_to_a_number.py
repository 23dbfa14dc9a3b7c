import retrograd as rg
from retrograd import Array, reversible


@reversible
def f(z: complex, ws: Array[complex, "n"]):
    z += ws


f(0j, [1j, 2j])
