import retrograd as rg
from retrograd import Array, fixed, reversible


@rg.struct
class Weights:
    w: Array[fixed, "n"]


@reversible
def total(y: fixed, weights: Weights):
    y += rg.sum(weights.w)


@reversible
def f(y: fixed, xs: Array[fixed, "n"], n: int):
    total(y, Weights(xs[:n]))


f(0.0, [1.0, 2.0, 3.0], 2)
