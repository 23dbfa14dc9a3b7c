from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    y += 1 / 0


f(0.0)
