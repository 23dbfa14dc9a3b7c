import retrograd as rg
from retrograd import Stack, reversible


@reversible
def f(s: Stack[complex, 4], z: complex):
    rg.pop(s, z)


f([], 0)
