from retrograd import fixed, lognum, reversible


@reversible
def f(y: fixed, x: fixed):
    z = lognum(2.0)
    z *= lognum(x)
    y += fixed(z)


f(1.0, 3.0)
