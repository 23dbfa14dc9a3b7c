"""Energy: counts of a run, and their prices by a technology model.

The simulator counts (`counting`, `attribution`, `ledger`); a technology model (`models`) prices (`pricing`). The two are
separate, and a part that is not modelled is never 0.
"""

from retrograd.simulator.energy import errors as errors
