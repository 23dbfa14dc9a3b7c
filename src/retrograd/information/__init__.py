"""Entropy: the information that programs and circuits lose, and the least heat of losing it (docs/entropy.md).

It imports `functions`, `netlists`, `values` and `simulator/energy`. Start with `losses.py`; `estimators.py` has the entropies of
samples, `logic.py` irreversible gates.
"""

from retrograd.information import errors as errors
