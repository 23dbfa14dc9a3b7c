import numpy as np
import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, a: Array[fixed], b: Array[fixed]):
    y += rg.sum(a * b)


f(0.0, np.zeros((2, 3)), np.zeros(2))
