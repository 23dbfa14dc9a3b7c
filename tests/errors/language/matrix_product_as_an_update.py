import numpy as np
from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed], b: Array[fixed]):
    a @= b


f(np.eye(2), np.eye(2))
