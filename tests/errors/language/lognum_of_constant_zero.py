from retrograd import fixed, lognum, reversible


@reversible
def f(y: fixed):
    z = lognum(0.0)
    y += fixed(z)


f(0.0)
