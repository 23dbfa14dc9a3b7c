from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed]):
    a += a


f([1.0, 2.0])
