import numpy as np

import retrograd as rg
from retrograd import fixed, reversible


@reversible
def total(y: fixed, *xs: fixed):
    for x in xs:
        y += x


rg.run_batch(total, 0.0, np.arange(3.0), np.arange(2.0), in_axes=(None, 0, 0))
