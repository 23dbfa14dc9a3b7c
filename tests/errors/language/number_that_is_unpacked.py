from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    a, b = x
    y += a


f(0.0, 3.0)
