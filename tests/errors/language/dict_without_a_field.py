import retrograd as rg
from retrograd import Array, fixed, reversible


@rg.struct
class Layer:
    weights: Array[fixed, 2]
    bias: fixed


@reversible
def f(y: fixed, p: Layer):
    y += p.weights[0] * p.weights[1] + p.bias


@reversible
def g(y: fixed, p):
    y += p["weights"][0] * p["bias"]


f(0.0, {"weights": [1.0, 2.0]})
