"""Tasks on the workers of an executor: batches, shared sums, gradients, sweeps, proofs and benchmarks are distributed here.

It imports `isa`, `presentation` and `version`; `batch` and all folders behind it import it. Start with `tasks.py`.
"""

from retrograd.distribution import errors as errors
