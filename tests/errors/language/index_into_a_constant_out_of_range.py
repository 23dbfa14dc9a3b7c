from retrograd import fixed, reversible

WEIGHTS = (0.5, 0.25)


@reversible
def f(y: fixed, i: int):
    y += WEIGHTS[i]


f(0.0, 2)
