import numpy as np
import retrograd as rg


@rg.functional
def f(v, i: int):
    return rg.sum(v[i : i + 2])


f(np.ones(3), 2)
