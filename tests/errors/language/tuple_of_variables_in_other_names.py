from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    pair = (x, y)
    a, b, c = pair
    a += 1


f(0.0, 1.0)
