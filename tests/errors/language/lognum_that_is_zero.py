from retrograd import lognum, reversible


@reversible
def f(z: lognum):
    z *= 2.0


f(0.0)
