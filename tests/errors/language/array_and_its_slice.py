from retrograd import Array, fixed, reversible


@reversible
def add(ys: Array[fixed], xs: Array[fixed]):
    ys += xs


@reversible
def f(xs: Array[fixed]):
    add(xs[1:], xs[:-1])


f([1.0, 2.0, 3.0])
