from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    if x > 0:
        return
    y += x


f(0.0, 3.0)
