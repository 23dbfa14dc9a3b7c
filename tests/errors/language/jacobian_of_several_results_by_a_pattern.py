import numpy as np

import retrograd as rg
from retrograd import Array, fixed, reversible


@rg.struct
class Body:
    x: fixed
    v: Array[fixed, 2]


@reversible
def step(y: Array[fixed, "n"], b: Body, k: fixed):
    for i in range(len(y)):
        y[i] += k * b.x
    b.x += k * b.v[0]


start = np.zeros(3), Body(x=1.0, v=np.ones(2)), 2.0
rg.jacobian(step, "k", ("y", "b"), pattern=np.ones((3, 1)))(*start)
