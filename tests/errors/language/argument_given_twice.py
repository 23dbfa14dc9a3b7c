from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += x


f(1.0, 2.0, y=3.0)
