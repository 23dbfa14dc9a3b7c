import pickle
import sys
import types

from retrograd import fixed, reversible

module = sys.modules["pool"] = types.ModuleType("pool")
__name__ = "pool"


@reversible
def grow(y: fixed, x: fixed):
    y += x


module.grow = print
pickle.dumps(grow)
