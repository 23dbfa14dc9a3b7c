from retrograd import fixed, reversible


@reversible(level=3)
def f(y: fixed, x: fixed):
    y += x * x


f(0.0, 1.0)
