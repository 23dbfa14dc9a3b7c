from retrograd import Array, fixed, reversible


@reversible
def f(y: Array[fixed, 4], x: Array[fixed, 2, 2]):
    y += x.reshape(3)


f([0.0] * 4, [[1.0, 2.0], [3.0, 4.0]])
