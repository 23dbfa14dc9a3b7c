from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    if (x > 0, y > 0):
        y += x


f(1.0, -2.0)
