import numpy as np

from retrograd import Array, fixed, reversible


@reversible
def shift(xs: Array[fixed, "n"], by: fixed):
    xs += by


shift(np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False]), 0.5)
