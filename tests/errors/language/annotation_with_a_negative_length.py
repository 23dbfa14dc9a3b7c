from retrograd import Array, fixed, reversible


@reversible
def f(x: Array[fixed, -1]):
    x[0] += 1


f([1.0, 2.0])
