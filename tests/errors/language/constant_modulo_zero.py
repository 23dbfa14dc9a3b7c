from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += x % 0.0


f(0.0, 1.0)
