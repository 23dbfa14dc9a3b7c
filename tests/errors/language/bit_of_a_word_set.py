from retrograd import reversible


@reversible
def f(x: int):
    x[3] ^= 1


f(0)
