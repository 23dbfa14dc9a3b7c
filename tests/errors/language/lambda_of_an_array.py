from retrograd import Array, fixed, reversible


@reversible
def f(ys: Array[fixed, "n"], k: fixed):
    g = lambda x: x * k
    ys += g(ys)


f([0.0, 1.0], 2.0)
