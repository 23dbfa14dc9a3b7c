import retrograd as rg
from retrograd import Stack, fixed, reversible


@reversible
def f(s: Stack[fixed, 4], z: complex):
    rg.push(s, z)


f([], 1 + 2j)
