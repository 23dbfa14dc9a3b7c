import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, x: Array[fixed, "n"]):
    y += rg.sum(x, where=[True, False])


f(0.0, [1.0, 2.0])
