from retrograd import fixed, reversible


@reversible(precision="warning")
def f(y: fixed):
    y += 1.0
