from retrograd import Array, fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def f(ys: Array[fixed], xs: Array[fixed]):
    add.each(ys, xs)


f([1.0, 2.0], [1.0, 2.0, 3.0])
