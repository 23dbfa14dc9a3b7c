import numpy as np
import retrograd as rg


@rg.functional
def f(v, n: int):
    g = (lambda x: rg.sum(v) * x) if n > 0 else (lambda x: x + 1)
    return g(2.0)


f(np.ones(3), 1)
