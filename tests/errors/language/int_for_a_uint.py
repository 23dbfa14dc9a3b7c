from retrograd import reversible, uint


@reversible
def double(y: uint, x: uint):
    y += 2 * x


@reversible
def f(y: uint, n: int):
    double(y, n)


f(0, 1)
