from retrograd import fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def f(y: fixed, x: fixed):
    if x > 0 and y > 0:
        add(x, y)


f(1.0, 2.0)
