import numpy as np
import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    t = rg.zeros(3, dtype=np.float64)
    y += t[0]


f(0.0)
