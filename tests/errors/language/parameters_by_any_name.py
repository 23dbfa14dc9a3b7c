from retrograd import fixed, reversible


@reversible
def f(y: fixed, **xs: fixed):
    y += 1


f(0.0)
