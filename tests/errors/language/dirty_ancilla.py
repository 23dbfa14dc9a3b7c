from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    t = 0.0
    t += x * x
    y += t


f(0.0, 3.0)
