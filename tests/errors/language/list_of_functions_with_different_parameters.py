from retrograd import fixed, reversible


@reversible
def double(y: fixed, x: fixed):
    y += 2 * x


@reversible
def fill(y: fixed):
    y += 1


@reversible
def f(y: fixed, x: fixed, i: int):
    [double, fill][i](y, x)


f(0.0, 2.0, 0)
