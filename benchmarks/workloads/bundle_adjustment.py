"""ADBench's bundle adjustment: the errors of p measurements, and the 2 × 15 block of the Jacobian of each.

ADBench's files replicate one measurement. Here all but the first differ from it by a percent, so that branches vary.
The Jacobian is sparse: these blocks, and ∂(1 − w²)/∂w = −2w, which takes no time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from retrograd.benchmarks import ours
from retrograd.benchmarks.data import Measurements
from retrograd.benchmarks.references import adbench, formulas
from retrograd.benchmarks.workload import Golden, Problem, Sizes, Stream, Task, Workload, with_extent
from retrograd.examples import bundle_adjustment as example

import retrograd as rg

SHIPPED = "ba1_n49_m7776_p31843.txt"
NAMES = ("camera", "point", "weight")
CHECKED = 20
#: measurements of one piece of a problem that does not fit into memory
PIECE = 1 << 17


def measurements(path: Path, count: int, seed: int = 1) -> tuple[Measurements, Any]:
    """(`count` measurements around the one of the file, which is the first; the file)."""
    file = adbench.read_bundle(path)
    inputs = np.tile(file.inputs, (count, 1))
    inputs[1:] *= 1 + 0.01 * np.random.default_rng(seed).normal(size=(count - 1, len(file.inputs)))
    features = np.tile(file.feature, (count, 1))
    return Measurements(inputs[:, :11].copy(), inputs[:, 11:14].copy(), inputs[:, 14].copy(), features), file


def problem(path: Path, count: int, seed: int = 1) -> Problem:
    """A problem with `count` measurements."""
    data, file = measurements(path, count, seed)
    call = ours.Call(example.reprojection_error, (np.zeros((count, 2)), *data.arguments))
    errors = np.array([adbench.reprojection(z, file.feature) for z in data.inputs[:CHECKED]])
    blocks = np.array(
        [formulas.jacobian(lambda z: adbench.reprojection(z, file.feature), z) for z in data.inputs[:CHECKED]]
    )
    return Problem(
        f"{count} measurements around that of {path.name}", count,
        (
            Task("value", data, errors, 5e-6, lambda: ours.value(call, "error"), absolute=True),
            Task("jacobian", data, blocks, 1e-8, lambda: ours.rows(call, NAMES, "error")),
        ),
        count,
    )  # fmt: skip


def _first(path: Path) -> tuple[Any, ...]:
    given = example.read(path, 1)
    return given.cameras[0], given.points[0], float(given.weights[0]), given.features[0]


def _goldens() -> Sequence[Golden]:
    def errors(name: str) -> Any:
        return example.reprojection_error(np.zeros(2), *_first(example.DATA / name)).error

    def slope(name: str) -> float:
        one = _first(example.DATA / name)
        _, back = rg.vjp(example.reprojection_error, np.zeros(2), *one)
        return float(back({"error": np.array([1.0, 0.0])}).camera[0])

    def entries() -> float:
        return float(len(adbench.sparsity(adbench.read_bundle(example.DATA / "test.txt"))[0]))

    return [
        Golden("test.txt, the first error", -0.2690488, 1e-6, lambda: float(errors("test.txt")[0])),
        Golden("test.txt, the second", 0.2599448, 1e-6, lambda: float(errors("test.txt")[1])),
        Golden("test.txt, entries of the Jacobian", 310, 0, entries),
        Golden("ba1, J₀₀", -461.4463210015993, 6e-9 * 1200, lambda: slope(SHIPPED)),
    ]


def _problems(sizes: Sizes) -> Sequence[Problem]:
    return [problem(example.DATA / SHIPPED, 1000 if sizes.quick else adbench.read_bundle(example.DATA / SHIPPED).p)]


def _curve(sizes: Sizes) -> Sequence[Problem]:
    counts = (100, 1000) if sizes.quick else (100, 300, 1000, 3000, 10_000, 31_843)
    return [with_extent(problem(example.DATA / SHIPPED, n), n) for n in counts]


def _streams(sizes: Sizes) -> Sequence[Stream]:
    """All files of the folder, up to nine million measurements, in pieces of some hundred megabytes."""
    if not sizes.full or sizes.data is None:
        return []
    paths = sorted((sizes.data / "ba").glob("ba*.txt"), key=lambda path: adbench.read_bundle(path).p)
    return [Stream(path.name, adbench.read_bundle(path).p, functools.partial(_pieces, path)) for path in paths]


def _pieces(path: Path) -> Iterator[Problem]:
    left, seed = adbench.read_bundle(path).p, 0
    while left > 0:
        seed += 1
        yield problem(path, min(left, PIECE), seed)
        left -= PIECE


WORKLOAD = Workload(
    "ba",
    "bundle adjustment",
    _goldens,
    lambda: (example.reprojection_error, (np.zeros(2), *_first(example.DATA / SHIPPED))),
    _problems,
    "measurements",
    _curve,
    _streams,
)
