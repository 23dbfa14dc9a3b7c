import numpy as np
import retrograd as rg


@rg.functional
def f(params):
    return {"w": 2.0 * params["w"]}


f({"w": np.ones(2)})
