from retrograd import fixed, reversible, uint


@reversible
def f(y: uint, x: fixed):
    y += uint(x)


f(0, 1.5)
