from retrograd import reversible, uint


@reversible
def f(less: bool, u: uint):
    less ^= u < -1


f(False, 1)
