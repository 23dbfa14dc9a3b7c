from retrograd import fixed, reversible


def shift(x):
    x += 1


@reversible
def f(x: fixed):
    shift(x)


f(0.0)
