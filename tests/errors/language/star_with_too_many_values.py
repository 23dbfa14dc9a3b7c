from retrograd import Array, fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def f(y: fixed, xs: Array[fixed, 3]):
    add(y, *xs)


f(0.0, [1.0, 2.0, 3.0])
