from retrograd import fixed, reversible


def rate():
    return 0.5


@reversible
def grow(y: fixed, x: fixed):
    y += x * rate()


grow(0.0, 1.0)
