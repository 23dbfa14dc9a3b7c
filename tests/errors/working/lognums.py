from retrograd import fixed, lognum, reversible


@reversible
def f(z: lognum, x: lognum, y: fixed):
    z *= x
    z /= x**2
    z *= lognum(y)
    y += fixed(x * x)


ARGUMENTS = [(1.0, 2.0, 3.0)]
