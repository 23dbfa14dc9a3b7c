from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += x


f(0.0, [1.0, 2.0])
