from retrograd import fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def f(x: fixed, y: fixed):
    add(3 * x, y)


f(1.0, 2.0)
