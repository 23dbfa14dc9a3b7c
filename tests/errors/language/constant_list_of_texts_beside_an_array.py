from retrograd import Array, fixed, reversible

NAMES = ["a", "b"]


@reversible
def f(y: Array[fixed, "n"], x: Array[fixed, "n"]):
    y += x + NAMES


f([0.0, 0.0], [1.0, 2.0])
