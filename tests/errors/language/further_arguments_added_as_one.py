from retrograd import fixed, reversible


@reversible
def total(y: fixed, *xs: fixed):
    y += xs


total(0.0, 1.0, 2.0)
