from retrograd import Array, reversible


@reversible
def f(best: int, x: Array[int, "n"]):
    for v in x:
        if v > best:
            best += v - best


f(0, [3, 1])
