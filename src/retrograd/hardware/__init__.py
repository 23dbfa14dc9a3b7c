"""Functions of the language as hardware: on the co-processor, simulated or on a bus; as reversible netlists (docs/gates.md).

It imports `functions`, `differentiation`, `values` and `hdl`. Start with `runs.py`, or with `function_netlists.py`;
`_program_lowering.py` is the fold over the IR.
"""

from retrograd.lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__, __file__)
