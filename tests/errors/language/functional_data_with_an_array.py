import numpy as np
import retrograd as rg
from retrograd import Array, fixed


@rg.data
class Layer:
    w: Array[fixed, 3]
    b: fixed


@rg.functional
def f(layer: Layer):
    return rg.sum(layer.w) + layer.b


f(Layer(np.ones(3), 1.0))
