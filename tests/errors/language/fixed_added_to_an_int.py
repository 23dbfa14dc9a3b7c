from retrograd import fixed, reversible


@reversible
def f(n: int, x: fixed):
    n += x


f(1, 2.0)
