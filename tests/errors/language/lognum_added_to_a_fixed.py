from retrograd import fixed, lognum, reversible


@reversible
def f(y: fixed, z: lognum):
    y += z


f(1.0, 2.0)
