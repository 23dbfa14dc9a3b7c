from retrograd import Array, fixed, reversible


@reversible
def f(y: Array[fixed, "m"], x: Array[fixed, "m", "n"]):
    y += max(x, axis=1)


f([0.0, 0.0], [[1.0, 2.0], [3.0, 4.0]])
