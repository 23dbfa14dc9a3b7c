from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += min(x)


f(0.0, 1.0)
