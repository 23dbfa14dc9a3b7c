import numpy as np

from retrograd import Array, fixed, reversible

RATES = np.array([[0.5, 3e-6], [2e-7, 0.25]])


@reversible(format="Q16.16")
def decay(y: Array[fixed, 2], x: Array[fixed, 2]):
    y += RATES[:, 1] + x


decay([0.0, 0.0], [1.0, 1.0])
