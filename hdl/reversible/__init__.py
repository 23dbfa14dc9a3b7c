"""Reversible netlists: gates that lose nothing, from the same expression trees as the machine (docs/gates.md).

It imports `isa`, and z3 when two netlists are compared. Start with `circuit.py`; `lowering.py` is the fold over the trees.
"""

from retrograd.hdl import errors as errors
