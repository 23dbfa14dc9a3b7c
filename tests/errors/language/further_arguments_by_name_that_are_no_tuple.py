from retrograd import fixed, reversible


@reversible
def total(y: fixed, *xs: fixed):
    for x in xs:
        y += x


total(0.0, xs=3.0)
