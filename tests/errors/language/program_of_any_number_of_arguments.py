from retrograd import fixed, reversible


@reversible
def total(y: fixed, *xs: fixed):
    for x in xs:
        y += x


total.assembly()
