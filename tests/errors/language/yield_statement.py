from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    yield y


f(0.0)
