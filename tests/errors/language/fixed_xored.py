from retrograd import fixed, reversible


@reversible
def f(x: fixed, y: fixed):
    x ^= y


f(1.0, 2.0)
