from retrograd import Array, fixed, reversible


@reversible
def add(ys: Array[fixed], x: fixed):
    ys += x


@reversible
def f(xs: Array[fixed]):
    add(xs, xs[1])


f([1.0, 2.0])
