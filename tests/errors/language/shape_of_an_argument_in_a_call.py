import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def dot(y: fixed, a: Array[fixed, "n"], b: Array[fixed, "n"]):
    y += rg.sum(a * b)


@reversible
def f(y: fixed, xs: Array[fixed], ys: Array[fixed]):
    dot(y, xs, ys)


f(0.0, [1.0, 2.0], [1.0, 2.0, 3.0])
