from retrograd import fixed, lognum, reversible


@reversible
def f(y: fixed, x: fixed):
    z = lognum(x)
    y += fixed(z)


f(0.0, 0.0)
