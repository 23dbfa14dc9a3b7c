from retrograd import fixed, reversible


@reversible
def shift(y: fixed):
    y += ofset


@reversible
def f(y: fixed):
    shift(y)


f(0.0)
