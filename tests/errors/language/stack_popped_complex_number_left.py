import retrograd as rg
from retrograd import Stack, reversible


@reversible
def f(s: Stack[complex, 4]):
    t = rg.pop(s)
    u = rg.pop(s)


f([1j, 2 + 3j])
