from retrograd import reversible, uint


@reversible
def f(y: uint, n: uint):
    for i in range(n, 0, -1):
        y += i


f(0, 3)
