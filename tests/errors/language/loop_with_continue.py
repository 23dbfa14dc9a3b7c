from retrograd import Array, reversible


@reversible
def f(y: int, x: Array[int, "n"]):
    for v in x:
        if v < 0:
            continue
        y += v


f(0, [1, -2, 3])
