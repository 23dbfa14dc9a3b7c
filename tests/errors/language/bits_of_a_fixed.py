from retrograd import fixed, reversible


@reversible
def f(n: int, x: fixed):
    n += x & 1


f(1, 1.0)
