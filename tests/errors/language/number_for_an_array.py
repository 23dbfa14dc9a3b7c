import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed, "n"]):
    y += rg.sum(xs)


f(0.0, 1.0)
