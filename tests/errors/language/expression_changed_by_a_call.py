from retrograd import fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def f(y: fixed, x: fixed):
    add(y * 3, x)


f(1.0, 2.0)
