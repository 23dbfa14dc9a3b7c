import retrograd as rg
from retrograd import Stack, reversible


@reversible
def f(s: Stack[complex, 4], z: complex):
    rg.push(s, z)


f([], 1 + 2j)
