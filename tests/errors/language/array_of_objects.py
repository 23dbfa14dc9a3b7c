import numpy as np
import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed]):
    y += rg.sum(xs)


f(0.0, np.array([1.0, None, 2.0], dtype=object))
