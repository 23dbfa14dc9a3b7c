import numpy as np
from retrograd import Array, fixed, reversible


@reversible
def f(y: Array[fixed, "n"], x: Array[fixed, "n"]):
    np.add(y, x, out=y)


f([0.0, 0.0], [1.0, 2.0])
