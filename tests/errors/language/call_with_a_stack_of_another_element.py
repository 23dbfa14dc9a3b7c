from retrograd import Stack, fixed, reversible


@reversible
def count(n: int, s: Stack[fixed, 4]):
    n += len(s)


@reversible
def f(n: int, s: Stack[complex, 4]):
    count(n, s)


f(0, [1j])
