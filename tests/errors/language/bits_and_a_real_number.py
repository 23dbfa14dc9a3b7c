from retrograd import reversible


@reversible
def f(y: int, x: int):
    y ^= x & 1.5


f(0, 5)
