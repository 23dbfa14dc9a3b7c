"""The workloads, one file each; `small` has workloads that are checked and counted, and not timed.

Definitions in the language come from the examples and the library. Goldens and tolerances are those of their tests.
"""

from __future__ import annotations

from retrograd.benchmarks.workload import Workload
from retrograd.benchmarks.workloads import (
    bennett,
    bessel,
    bundle_adjustment,
    gmm,
    graph_embedding,
    leapfrog,
    small,
    sparse_dot,
    wave,
)

#: in the order of the tables
ALL: tuple[Workload, ...] = (
    bessel.DIRTY,
    bessel.LOGNUM,
    sparse_dot.WORKLOAD,
    graph_embedding.WORKLOAD,
    gmm.WORKLOAD,
    bundle_adjustment.WORKLOAD,
    leapfrog.WORKLOAD,
    wave.WORKLOAD,
    bennett.WORKLOAD,
    *small.ALL,
)
