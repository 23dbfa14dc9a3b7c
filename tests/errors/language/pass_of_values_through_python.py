from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += float(str(x))


f(0.0, 2.0)
