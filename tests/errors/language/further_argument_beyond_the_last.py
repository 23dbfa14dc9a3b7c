from retrograd import fixed, reversible


@reversible
def third(y: fixed, *xs: fixed):
    y += xs[2]


third(0.0, 1.0, 2.0)
