import numpy as np

from retrograd import functional


@functional
def f(v, n: int):
    return [v * k for k in range(n)]


f(np.array([1.0, 2.0]), 3)
