from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed]):
    a.shape += 1


f([1.0])
