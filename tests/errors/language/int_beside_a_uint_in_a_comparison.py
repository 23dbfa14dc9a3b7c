from retrograd import reversible, uint


@reversible
def f(less: bool, u: uint, n: int):
    less ^= u < n


f(False, 1, -1)
