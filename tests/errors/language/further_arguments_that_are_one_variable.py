from retrograd import fixed, reversible


@reversible
def shift(by: fixed, *xs: fixed):
    for x in xs:
        x += by


@reversible
def f(x: fixed):
    shift(1.0, x, x)


f(0.0)
