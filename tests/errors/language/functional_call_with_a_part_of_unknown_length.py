import retrograd as rg
from retrograd import Array, fixed, reversible


@rg.functional
def first(xs: Array[fixed, "n"]) -> fixed:
    return xs[0]


@reversible
def f(y: fixed, xs: Array[fixed, "n"], n: int):
    y += first(xs[:n])


f(0.0, [1.0, 2.0, 3.0], 2)
