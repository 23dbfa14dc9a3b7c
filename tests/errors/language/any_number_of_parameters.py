from retrograd import fixed, reversible


@reversible
def f(y: fixed, *xs: fixed):
    for x in xs:
        y += x


f(0.0, 1.0)
