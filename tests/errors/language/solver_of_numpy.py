import numpy as np
from retrograd import Array, fixed, reversible


@reversible
def f(y: Array[fixed, "n"], a: Array[fixed, "n", "n"], b: Array[fixed, "n"]):
    y += np.linalg.solve(a, b)


f([0.0, 0.0], [[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])
