from retrograd import fixed, reversible


@reversible
def shift(by: fixed, *xs: fixed):
    for x in xs:
        x += by


@reversible
def f(x: fixed, y: fixed):
    shift(1.0, x, y * 3)


f(0.0, 1.0)
