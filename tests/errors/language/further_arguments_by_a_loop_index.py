from retrograd import fixed, reversible


@reversible
def total(y: fixed, *xs: fixed):
    for i in range(len(xs)):
        y += xs[i]


total(0.0, 1.0, 2.0)
