from retrograd import fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def f(n: int, x: fixed):
    add(n, x)


f(1, 2.0)
