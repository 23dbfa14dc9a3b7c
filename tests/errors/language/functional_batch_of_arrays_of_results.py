import numpy as np
import retrograd as rg
from retrograd import Array, fixed


@rg.functional
def doubled(v: Array[fixed, 2]) -> Array[fixed, 2]:
    return 2.0 * v


rg.vmap(doubled)(np.ones((3, 2)))
