import numpy as np
from retrograd import reversible


@reversible
def f(x: np.int8):
    x += 1


f(1)
