from retrograd import lognum, reversible


@reversible
def f(z: lognum, x: lognum):
    z += x


f(1.0, 2.0)
