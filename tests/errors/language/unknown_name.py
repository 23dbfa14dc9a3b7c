from retrograd import fixed, reversible


@reversible
def f(total: fixed, x: fixed):
    total += 2 * x
    totl += 1


f(0.0, 1.0)
