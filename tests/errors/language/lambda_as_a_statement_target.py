from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    add = lambda: y + x
    add += 1


f(0.0, 2.0)
