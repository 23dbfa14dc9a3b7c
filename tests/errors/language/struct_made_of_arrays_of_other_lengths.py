import numpy as np
import retrograd as rg
from retrograd import Array, fixed, reversible


@rg.struct
class Layer:
    w: Array[fixed, "m", "n"]
    b: Array[fixed, "m"]


@reversible
def f(y: fixed, w: Array[fixed, "k", "n"], b: Array[fixed, "m"]):
    layer = Layer(w, b)
    y += layer.b[0]


f(0.0, np.ones((2, 3)), np.zeros(4))
