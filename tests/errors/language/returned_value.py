from retrograd import fixed, reversible


@reversible
def square(y: fixed, x: fixed):
    y += x * x
    return y


square(0.0, 3.0)
