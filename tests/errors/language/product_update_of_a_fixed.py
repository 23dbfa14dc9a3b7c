from retrograd import fixed, reversible


@reversible
def scale(y: fixed, x: fixed):
    y *= x


scale(2.0, 3.0)
