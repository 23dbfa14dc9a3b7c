import retrograd as rg
from retrograd import Array, fixed, reversible


@rg.struct
class Layer:
    w: Array[fixed, "n"]


@reversible
def f(y: fixed, layer: Layer):
    y += layer.w[0]


f(0.0, [1.0, 2.0])
