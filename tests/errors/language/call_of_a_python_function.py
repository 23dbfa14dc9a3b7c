from retrograd import fixed, reversible


def double(x):
    return x * 2


@reversible
def f(y: fixed, x: fixed):
    y += double(x)


f(0.0, 1.0)
