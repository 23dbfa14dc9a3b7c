import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: Array[fixed, "n"], x: Array[fixed, "m", "n"], k: int):
    y += rg.sum(x, axis=k)


f([0.0, 0.0], [[1.0, 2.0], [3.0, 4.0]], 0)
