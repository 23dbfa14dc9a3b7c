"""The workloads. `small` has workloads that are checked and counted, and mostly not timed.

Definitions in the language come from the examples and the library. Goldens and tolerances are those of their tests.
"""

from __future__ import annotations

from retrograd.benchmarks.workload import Workload
from retrograd.benchmarks.workloads import adbench, dense, functions, simulations, small

#: in the order of the tables
ALL: tuple[Workload, ...] = (
    functions.DIRTY,
    functions.LOGNUM,
    functions.SPARSE,
    functions.EMBEDDING,
    adbench.MIXTURE,
    adbench.BUNDLE,
    simulations.PLANETS,
    simulations.WAVE,
    *dense.ALL,
    small.BENNETT,
    *small.ALL,
)
