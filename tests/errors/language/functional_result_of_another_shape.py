import numpy as np
import retrograd as rg
from retrograd import Array, fixed


@rg.functional
def shorter(v: Array[fixed, "n"]) -> Array[fixed, "n"]:
    return v[1:]


shorter(np.ones(3))
