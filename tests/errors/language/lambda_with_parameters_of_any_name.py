from retrograd import fixed, reversible


@reversible
def f(y: fixed, k: fixed):
    g = lambda **xs: k
    y += g()


f(0.0, 2.0)
