import numpy as np
import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def norm(y: fixed, a: Array[fixed, "n"]):
    y += rg.sum(a * a)


@reversible
def f(y: fixed, xs: Array[fixed]):
    norm(y, xs)


f(0.0, np.eye(2))
