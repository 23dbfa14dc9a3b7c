import numpy as np
import retrograd as rg

@rg.functional
def change(xs: rg.Array[rg.fixed, "n"]):
    xs[0] = 1.0
    return xs[0]

change(np.zeros(3))
