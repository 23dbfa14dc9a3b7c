from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    for t in range(0, 1, 0.25):
        y += t


f(0.0)
