import numpy as np
from retrograd import fixed, reversible

WEIGHTS = np.array([1.0, 2.0])


@reversible
def f(y: fixed):
    WEIGHTS[0] += y


f(1.0)
