import numpy as np
import retrograd as rg

@rg.functional
def pick(xs: rg.Array[rg.fixed, "n"], i: int):
    return xs[i]

pick(np.zeros(3), 5)
