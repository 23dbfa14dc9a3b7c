from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed]):
    y += xs.std()


f(0.0, [1.0])
