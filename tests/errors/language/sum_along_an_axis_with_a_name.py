import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, x: Array[fixed, "m", "n"]):
    y += rg.sum(x, axis="rows")


f(0.0, [[1.0, 2.0], [3.0, 4.0]])
