import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def total(y: fixed, xs: Array[fixed]):
    y += rg.sum(xs)


@reversible
def f(y: fixed, xs: Array[fixed]):
    total(y, 3 * xs)


f(1.0, [2.0])
