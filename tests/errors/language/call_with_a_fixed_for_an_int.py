from retrograd import fixed, reversible


@reversible
def shift(n: int):
    n += 1


@reversible
def f(x: fixed):
    shift(x)


f(1.0)
