import numpy as np
from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed], i: int, j: int, k: int):
    a[i, j] += a[j, k] * a[k, i]


f(np.eye(3), 1, 1, 1)
