from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed], x: fixed):
    y += xs[x]


f(0.0, [1.0, 2.0], 1.0)
