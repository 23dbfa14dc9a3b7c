from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    import math

    y += math.pi


f(0.0)
