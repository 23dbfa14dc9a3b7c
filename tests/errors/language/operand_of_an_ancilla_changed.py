from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    t = x * x
    x += 1
    y += t


f(0.0, 2.0)
