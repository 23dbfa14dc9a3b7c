import numpy as np
from retrograd import fixed, reversible

WEIGHTS = np.array([0.5, 0.25])


@reversible
def f(y: fixed):
    if WEIGHTS:
        y += 1


f(0.0)
