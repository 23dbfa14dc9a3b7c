from retrograd import fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def f(x: fixed):
    add(-x, x)


f(1.0)
