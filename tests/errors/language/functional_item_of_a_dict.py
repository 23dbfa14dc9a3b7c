import numpy as np
import retrograd as rg


@rg.functional
def f(params):
    return params["b2"] * 2.0


f({"w": np.ones(2), "b": 1.0})
