"""Functions of the language as hardware: on the co-processor, simulated or on a bus; `netlists/`: as reversible netlists.

It imports `functions`, `differentiation`, `values` and `hdl`. Start with `runs.py`.
"""

from retrograd.lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__, __file__)
