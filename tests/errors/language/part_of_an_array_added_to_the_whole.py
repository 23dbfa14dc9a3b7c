from retrograd import Array, fixed, reversible


@reversible
def f(y: Array[fixed, "k"], x: Array[fixed, "k"], n: int):
    y += x[:n]


f([0.0] * 3, [1.0, 2.0, 3.0], 3)
