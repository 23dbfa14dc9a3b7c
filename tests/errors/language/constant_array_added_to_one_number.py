import numpy as np
from retrograd import fixed, reversible

WEIGHTS = np.array([0.25, 0.5])


@reversible
def f(y: fixed):
    y += WEIGHTS


f(0.0)
