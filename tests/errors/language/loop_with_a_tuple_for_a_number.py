from retrograd import Array, reversible


@reversible
def f(y: int, x: Array[int, "n"]):
    for i, v in x:
        y += i * v


f(0, [1, 2])
