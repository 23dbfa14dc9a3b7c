from retrograd import fixed, reversible


@reversible
def f(x: fixed):
    if x > 1:
        x -= x - 1


f(2.0)
