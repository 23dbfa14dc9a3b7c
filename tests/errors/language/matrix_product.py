import numpy as np
from retrograd import Array, fixed, reversible


@reversible
def f(y: Array[fixed], a: Array[fixed], b: Array[fixed]):
    y += a @ b


f(np.zeros(2), np.eye(2), np.zeros(2))
