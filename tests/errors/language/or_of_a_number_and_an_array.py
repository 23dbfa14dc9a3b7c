from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, n: int, xs: Array[fixed, 2]):
    y += n or xs


f(0.0, 0, [1.0, 2.0])
