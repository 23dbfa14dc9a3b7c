from retrograd import fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def f(x: fixed):
    add(1.0, x)


f(1.0)
