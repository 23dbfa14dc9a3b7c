from retrograd import Array, fixed, reversible


@reversible
def f(y: Array[fixed, 2], a: Array[fixed, 2, 3], b: Array[fixed, 2]):
    y += a @ b


f([0.0, 0.0], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [1.0, 2.0])
