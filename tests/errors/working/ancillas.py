from retrograd import fixed, lognum, reversible


@reversible
def f(y: fixed, x: fixed):
    t = x * x
    u = t + 1.5
    y += t * u
    u += x
    u -= x
    del u
    z = lognum(2.0)
    y += fixed(z)


ARGUMENTS = [(1.0, 2.0), (0.5, 0.25)]
