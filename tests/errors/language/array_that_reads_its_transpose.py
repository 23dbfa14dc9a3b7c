import numpy as np
from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed]):
    a += a.T


f(np.eye(2))
