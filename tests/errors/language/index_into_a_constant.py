from retrograd import fixed, reversible

WEIGHTS = (0.5, 0.25)


@reversible
def f(y: fixed):
    y += WEIGHTS[2]


f(0.0)
