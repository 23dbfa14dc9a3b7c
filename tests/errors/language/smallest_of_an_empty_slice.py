from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, x: Array[fixed, "k"], n: int):
    y += min(x[:n])


f(0.0, [1.0, 2.0, 3.0], 0)
