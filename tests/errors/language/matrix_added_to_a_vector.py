import numpy as np
from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed], b: Array[fixed]):
    a += b


f(np.zeros(3), np.zeros((2, 3)))
