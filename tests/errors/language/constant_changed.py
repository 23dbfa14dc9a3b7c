from retrograd import fixed, reversible

LIMIT = 3.0


@reversible
def f(y: fixed):
    LIMIT += y


f(1.0)
