from retrograd import fixed, reversible


@reversible
def f(y: fixed, k: fixed):
    g = lambda *xs: xs[0] * k
    y += g(k)


f(0.0, 2.0)
