import numpy as np
import retrograd as rg
from retrograd import Array, fixed, reversible


@rg.struct
class Layer:
    w: Array[fixed, "m", "n"]
    b: Array[fixed, "m"]


@reversible
def f(y: fixed, layers: Array[Layer, "k"]):
    y += layers[0].b[0]


f(0.0, [Layer(np.ones((2, 3)), np.zeros(2)), Layer(np.ones((1, 2)), np.zeros(1))])
