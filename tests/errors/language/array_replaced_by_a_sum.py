from retrograd import Array, fixed, reversible


@reversible
def f(y: Array[fixed, "n"], x: Array[fixed, "n"]):
    y = y + x


f([0.0, 0.0], [1.0, 2.0])
