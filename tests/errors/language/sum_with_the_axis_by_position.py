import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: Array[fixed, "n"], x: Array[fixed, "m", "n"]):
    y += rg.sum(x, 0)


f([0.0, 0.0], [[1.0, 2.0], [3.0, 4.0]])
