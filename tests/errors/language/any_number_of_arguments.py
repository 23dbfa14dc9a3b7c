from retrograd import Array, fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def f(xs: Array[fixed]):
    add(*xs)


f([0.0, 1.0])
