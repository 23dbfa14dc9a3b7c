import numpy as np
from retrograd import Array, fixed, reversible

WEIGHTS = np.array([0.25, 0.5, 0.25])


@reversible
def f(y: Array[fixed, "n"], x: Array[fixed, "n"]):
    y += WEIGHTS * x


f([0.0, 0.0], [1.0, 2.0])
