import numpy as np
import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible(format=rg.Format(8, 2))
def f(xs: Array[fixed]):
    xs += 1


f(np.zeros(300))
