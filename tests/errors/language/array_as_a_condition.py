from retrograd import Array, fixed, reversible


@reversible
def f(n: int, xs: Array[fixed]):
    if xs > 0:
        n += 1


f(1, [2.0])
