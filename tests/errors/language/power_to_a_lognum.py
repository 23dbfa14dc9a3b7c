from retrograd import lognum, reversible


@reversible
def f(z: lognum, x: lognum):
    z *= 2**x


f(1.0, 3.0)
