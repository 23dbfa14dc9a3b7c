from retrograd import fixed, reversible


@reversible
def total(y: fixed, *xs: fixed):
    for x in xs:
        y += x


@reversible
def f(y: fixed, x: fixed):
    total(y, xs=(x, x))


f(0.0, 1.0)
