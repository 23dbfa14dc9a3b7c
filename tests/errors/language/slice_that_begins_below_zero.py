import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, x: Array[fixed, "k"], i: int):
    y += rg.sum(x[i:])


f(0.0, [1.0, 2.0, 3.0], -1)
