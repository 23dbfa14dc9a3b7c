from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    t = 0.0
    if x > 0:
        del t
    y += x


f(1.0, 2.0)
