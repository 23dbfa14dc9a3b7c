from retrograd import Array, fixed, reversible


@reversible
def add(ys: Array[fixed], xs: Array[fixed]):
    ys += xs


@reversible
def f(xs: Array[fixed]):
    other = xs
    add(xs, other)


f([1.0, 2.0, 3.0])
