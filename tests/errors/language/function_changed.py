from retrograd import fixed, reversible


@reversible
def g(y: fixed):
    y += 1


@reversible
def f(y: fixed):
    g += y


f(1.0)
