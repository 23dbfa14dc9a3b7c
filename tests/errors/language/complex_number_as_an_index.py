import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed, "n"], w: complex):
    y += xs[w]


f(0.0, [1.0], 0j)
