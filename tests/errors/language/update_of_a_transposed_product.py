from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed, "n", "n"], b: Array[fixed, "n", "n"]):
    a += a.T @ b


f([[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]])
