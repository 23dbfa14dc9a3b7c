from retrograd import fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def f(y: fixed, x: fixed):
    t = 0.0
    add(t, x)
    y += t


f(0.0, 3.0)
