from retrograd import fixed, reversible

NAMES = ["a", "b"]


@reversible
def f(y: fixed, i: int):
    y += NAMES[i]


f(0.0, 1)
