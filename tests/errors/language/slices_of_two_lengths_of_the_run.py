import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, x: Array[fixed, "k"], n: int, m: int):
    y += rg.sum(x[:n] * x[:m])


f(0.0, [1.0, 2.0, 3.0], 2, 3)
