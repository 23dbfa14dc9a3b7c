import numpy as np
from retrograd import Array, fixed, reversible


@reversible
def add(ys: Array[fixed], xs: Array[fixed]):
    ys += xs


@reversible
def f(a: Array[fixed], i: int, j: int):
    add(a[i], a[j])


f(np.eye(3), 1, 1)
