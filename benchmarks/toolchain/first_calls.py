"""The waiting time of a user: the first call of a function that is new to the cache, and 120 calls of a gradient by each engine.

Each measurement is a process of its own with an empty cache; a small function and its gradient have run before, so that starting
the engines is not part of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from retrograd.benchmarks.measure import Row

from retrograd import Array, fixed, reversible

#: names of the rows that are bars
BA, GMM = "first call of a new function, BA Jacobian", "first call of a new function, GMM gradient"
AUTO = "auto over the best engine, 120 calls of a gradient"
ENGINES = ("auto", "threaded", "translated")
CALLS = 120

_PREPARED = """\
import sys, time
import numpy as np
import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.benchmarks.toolchain.calls import small
for _ in range(40):
    rg.value_and_grad(small, "x")(0.0, 1.5)
"""

_BA = """\
from retrograd.examples import bundle_adjustment as ba
p = ba.read(ba.DATA / "ba1_n49_m7776_p31843.txt", 1)
begun = time.perf_counter()
rg.jacobian(ba.reprojection_error, ("camera", "point", "weight"), "error")(
    np.zeros(2), p.cameras[0], p.points[0], float(p.weights[0]), p.features[0])
print(time.perf_counter() - begun)
"""

_GMM = """\
from retrograd.examples import gmm
m = gmm.read(gmm.DATA / "1k_d10_K25.txt")
begun = time.perf_counter()
rg.value_and_grad(gmm.gmm_objective, ("alphas", "means", "icf"), "out")(0.0, *m.arguments)
print(time.perf_counter() - begun)
"""

_CALLS = """\
from retrograd.benchmarks.toolchain.first_calls import rosenbrock
slope = rg.value_and_grad(rosenbrock, "x", engine=sys.argv[1])
x = np.linspace(-1, 1, 1000)
begun = time.process_time()
for _ in range(int(sys.argv[2])):
    slope(0.0, x)
print(time.process_time() - begun)
"""


@reversible
def rosenbrock(y: fixed, x: Array[fixed, 1000]) -> None:
    """y += Σᵢ 100 (xᵢ₊₁ − xᵢ²)² + (1 − xᵢ)²"""
    for i in range(len(x) - 1):
        y += 100 * (x[i + 1] - x[i] * x[i]) ** 2 + (1 - x[i]) ** 2


def measure(quick: bool) -> list[Row]:
    """The first calls in seconds, and the CPU time of all calls by `auto` over that by the best engine that was chosen by name."""
    repeats = 1 if quick else 2
    rows = [Row(BA, _least(_BA, repeats), "s", 0.5, lower_is_better=True)]
    if not quick:
        rows.append(Row(GMM, _least(_GMM, repeats), "s", 3.0, lower_is_better=True))
    calls = CALLS // 4 if quick else CALLS
    spent = {engine: _least(_CALLS, repeats, engine, str(calls)) for engine in ENGINES}
    rows += [Row(f"{calls} calls of a gradient, {engine}", took, "s (CPU)") for engine, took in spent.items()]
    if not quick:
        best = min(took for engine, took in spent.items() if engine != "auto")
        rows.append(Row(AUTO, spent["auto"] / best, "×", 1.3, lower_is_better=True))
    return rows


def _least(code: str, repeats: int, *arguments: str) -> float:
    return min(in_process(_PREPARED + code, *arguments) for _ in range(repeats))


def in_process(code: str, *arguments: str) -> float:
    """The number that a process with an empty cache prints last."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            check=True, stdout=subprocess.PIPE, encoding="utf-8", env={**os.environ, "RETROGRAD_CACHE": cache},
        )  # fmt: skip
    return float(done.stdout.split()[-1])
