"""Physics of programs: energy and entropy of runs, gradients, batches and netlists; sweeps, advice, plots.

It imports `functions`, `values`, `batch`, `differentiation`, `distribution`, `hardware`, `presentation` and `simulator/energy`. Start with
`energy.py`, the function `rg.energy`; `report.py` has its result, `entropy.py` the function `rg.entropy`.
"""

from retrograd import errors as errors
