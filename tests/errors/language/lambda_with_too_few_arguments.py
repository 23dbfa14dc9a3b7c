from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    g = lambda a, b: a * b
    y += g(x)


f(0.0, 2.0)
