from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    t = x * x
    t += 1
    y += t


f(1.0, 2.0)
