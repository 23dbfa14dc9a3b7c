from retrograd import Array, fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def f(y: fixed, xs: Array[fixed]):
    add(y, xs)


f(1.0, [2.0])
