from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    t = x + 1
    t += x * x
    y += t
    del t


f(0.0, 3.0)
