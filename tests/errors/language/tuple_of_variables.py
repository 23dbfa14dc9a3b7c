from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    pair = (x, y)
    y += pair[0]


f(0.0, 1.0)
