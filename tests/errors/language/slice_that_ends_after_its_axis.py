import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed], n: int):
    y += rg.sum(xs[:n])


f(0.0, [1.0, 2.0, 3.0], 4)
