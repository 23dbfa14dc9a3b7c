from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    t: fixed
    y += 1


f(0.0)
