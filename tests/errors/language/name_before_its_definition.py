from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += t
    t = x * x


f(0.0, 4.0)
