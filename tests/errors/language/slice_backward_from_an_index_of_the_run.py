import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, x: Array[fixed, "k"], n: int):
    y += rg.sum(x[n::-1])


f(0.0, [1.0, 2.0, 3.0], 2)
