"""Energy of functions: runs counted and priced by technology models, sweeps, advice, plots.

It imports `figures`, `functions`, `batch`, `differentiation` and `simulator/energy`. Start with `runs.py`.
"""

from retrograd.pricing import errors as errors
