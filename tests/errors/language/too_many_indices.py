from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed]):
    y += xs[0, 1]


f(0.0, [1.0, 2.0])
