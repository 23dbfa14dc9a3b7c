import numpy as np
import retrograd as rg
from retrograd import Array, fixed, reversible


@rg.struct
class Layer:
    w: Array[fixed, "m", "n"]
    b: Array[fixed, "m"]


@reversible
def f(y: Array[fixed, "m"], layer: Layer):
    y += layer.b


f([0.0, 0.0], Layer(np.ones((2, 3)), np.zeros(3)))
