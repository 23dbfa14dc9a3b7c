import numpy as np
from retrograd import reversible


@reversible
def f(x: np.ndarray):
    x[0] += 1


f([1.0, 2.0, 3.0])
