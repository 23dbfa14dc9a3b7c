"""Energy: what a run counts, and what a technology asks for it.

The simulator counts (`counting`, `attribution`, `ledger`); a technology model (`models`) prices (`pricing`). The two never mix,
and what is not modelled is never 0.
"""

from retrograd.simulator.energy import errors as errors
