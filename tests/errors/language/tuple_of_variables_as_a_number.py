from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    g = lambda u: (u, x)
    y += g(x)


f(0.0, 1.0)
