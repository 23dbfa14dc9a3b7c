"""Machines: the reference machine, which defines a step, and engines that are tested against it.

It imports `isa` only; numpy and llvmlite are imported in `engines/`. Start with `machine.py`.
"""

from retrograd.simulator import errors as errors
