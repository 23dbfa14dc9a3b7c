import numpy as np
import retrograd as rg


@rg.functional
def f(z):
    return rg.sum(z * z)


f(np.array([1 + 2j, 1j]))
