"""The wave on one core and on two, and 100,000 steps of it out and back."""

from __future__ import annotations

import os

from retrograd.benchmarks.measure import Row, optimised
from retrograd.benchmarks.toolchain.first_calls import in_process
from retrograd.benchmarks.workloads import wave

#: names of the rows that are bars
CORES = "wave, gradient: one core over two"
RETURNS = "wave: words that differ after 100,000 steps of 64 × 64 cells out and back"

_GRADIENT = """\
import os, sys, time
n, steps, *cores = map(int, sys.argv[1:])
os.sched_setaffinity(0, cores)
import retrograd as rg
from retrograd.benchmarks.measure import optimised
from retrograd.benchmarks.workloads import wave
from retrograd.examples.wave import misfit
d = wave.data(n, steps)
slope = rg.grad(misfit, "c", engine="translated")
took = []
with optimised():
    for _ in range(4):
        begun = time.perf_counter()
        slope(0.0, d.q, d.p, d.c, d.seen, d.line, d.steps)
        took.append(time.perf_counter() - begun)
print(min(took))
"""


def measure(quick: bool) -> list[Row]:
    """Processes on one core and on two, since engines count the cores when they start. A single run is timed: batches share rows otherwise."""
    rows = []
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    if len(cores) >= 2:
        size = ("64", "100") if quick else ("256", "400")
        one, two = (in_process(_GRADIENT, *size, *map(str, cores[:k])) for k in (1, 2))
        rows.append(Row(CORES, one / two, "×", 1.7))
    if not quick:
        with optimised():
            rows.append(Row(RETURNS, wave.differing(64, 100_000), "words", 0, lower_is_better=True))
    return rows
