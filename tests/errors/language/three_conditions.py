from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    if (x > 0, x > 1, x > 2):
        y += x


f(0.0, 1.0)
