from retrograd import fixed, reversible


@reversible
def once(y: fixed, x: fixed):
    y += x


@reversible
def twice(y: fixed, x: fixed):
    y += 2 * x


@reversible
def f(y: fixed, x: fixed, i: int):
    fs = [once, ~twice]
    fs[i](y, x)


f(0.0, 2.0, 2)
