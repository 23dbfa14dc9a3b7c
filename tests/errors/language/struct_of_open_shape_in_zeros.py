import retrograd as rg
from retrograd import Array, fixed, reversible


@rg.struct
class Layer:
    w: Array[fixed, "m", "n"]
    b: Array[fixed, "m"]


@reversible
def f(y: fixed):
    layers = rg.zeros(3, dtype=Layer)
    y += layers[0].b[0]


f(0.0)
