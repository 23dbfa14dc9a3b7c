from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    s = x + 1
    t = s * s
    y += t
    del s


f(0.0, 2.0)
