import numpy as np
from retrograd import Array, fixed, reversible


@reversible
def add(ys: Array[fixed], xs: Array[fixed]):
    ys += xs


@reversible
def f(a: Array[fixed]):
    add(a[1], a[1])


f(np.eye(2))
