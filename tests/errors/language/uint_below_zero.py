from retrograd import reversible, uint


@reversible
def f(x: uint):
    x += 1


f(-1)
