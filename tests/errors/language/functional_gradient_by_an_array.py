import numpy as np

import retrograd as rg


@rg.functional
def f(xs):
    return rg.hessian(lambda v: rg.sum(v * v))(xs)


f(np.array([1.0, 2.0]))
