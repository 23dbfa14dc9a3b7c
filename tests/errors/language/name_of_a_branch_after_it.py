from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    if x > 0:
        t = x * x
        y += t
    y += t


f(0.0, 4.0)
