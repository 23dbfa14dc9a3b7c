from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    t = x * x
    y += t
    del t
    y += t


f(0.0, 1.0)
