from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    raise ValueError("no")


f(0.0)
