"""The workloads of ADBench: a Gaussian mixture and bundle adjustment.

The mixture is the log-likelihood of n points, and its gradient by all parameters.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from retrograd.benchmarks import ours, references
from retrograd.benchmarks.workload import (
    Golden,
    Measurements,
    Mixture,
    Problem,
    Sizes,
    Stream,
    Task,
    Workload,
    with_extent,
)
from retrograd.examples import bundle_adjustment as bundle_example
from retrograd.examples import gmm as mixture_example

import retrograd as rg

MIXTURE_NAMES = ("alphas", "means", "icf")
#: d and k of the mixture for quick runs and curves
SMALL = (4, 8)
#: the files that come with Retrograd: file, points (None: all), published value
SHIPPED_MIXTURE = (("test.txt", 8.07380408004975791), ("1k_d10_K25.txt", -25649.6526211973))
#: the files of a folder with ADBench's data
LARGE = (
    ("10k/gmm_d10_K25.txt", -290193.38797503925),
    ("10k/gmm_d10_K5.txt", -315926.321042582),
)


def random_mixture(d: int, k: int, n: int, size: float = 1.0) -> references.Mixture:
    """A random mixture, with means and points of this size. A row of a factor is about as long at each d."""
    generator = np.random.default_rng(d)
    parts = [generator.normal(size=shape) for shape in ((k,), (k, d), (k, d * (d + 1) // 2), (n, d))]
    return references.Mixture(parts[0], size * parts[1], parts[2] / np.sqrt(d), size * parts[3], 1.0, 0)


def mixture_problem(file: references.Mixture, name: str) -> Problem:
    call = ours.Call(
        mixture_example.gmm_objective,
        (np.zeros(1), *file),
        ours.only("out", mixture_example.gmm_objective) | {"gamma": None, "m": None},
    )
    value, by = references.likelihood_gradient(*file)
    mixture_data = Mixture(*file)
    slopes = np.concatenate([np.ravel(part) for part in by[:3]])
    n = len(file.x)
    return Problem(
        f"{n} points of {name}: d = {file.x.shape[1]}, k = {len(file.alphas)}", 1,
        (
            Task("value", mixture_data, np.array([value]), 5e-7 + 2e-9 * n, lambda: ours.value(call, "out"), absolute=True),
            Task("gradient", mixture_data, slopes, 3e-8, lambda: ours.gradient(call, MIXTURE_NAMES)),
        ),
        n,
    )  # fmt: skip


def _mixture_goldens() -> Sequence[Golden]:
    """The published values. That of a thousand points takes a while; in a full run it is the task `value`."""
    file = mixture_example.read(mixture_example.DATA / SHIPPED_MIXTURE[0][0])
    found = mixture_example.read(mixture_example.DATA / SHIPPED_MIXTURE[1][0])
    return [
        Golden(SHIPPED_MIXTURE[0][0], SHIPPED_MIXTURE[0][1], 1e-9, lambda: float(mixture_example.gmm_objective(0.0, *file.arguments).out)),
        # The value of the reference, with which every system is compared.
        Golden(f"{SHIPPED_MIXTURE[1][0]}, the reference", SHIPPED_MIXTURE[1][1], 1e-9, lambda: references.likelihood_gradient(*found.arguments)[0]),
    ]  # fmt: skip


def _mixture_problems(sizes: Sizes) -> Sequence[Problem]:
    if sizes.quick:
        return [mixture_problem(random_mixture(*SMALL, 50), "a random mixture")]
    file = SHIPPED_MIXTURE[1][0]
    out = [mixture_problem(references.read_mixture(mixture_example.DATA / file), file)]
    if sizes.data is not None:
        for name, published in LARGE:
            large = references.read_mixture(sizes.data / "gmm" / name)
            found = references.likelihood(*large)
            if not abs(found - published) <= 1e-12 * abs(published):
                raise AssertionError(f"{name}: the reference has {found!r}, and {published!r} is published")
            out.append(mixture_problem(large, name))
    return out


def _mixture_curve(sizes: Sizes) -> Sequence[Problem]:
    """The number of points is part of an argument's type, so each size is compiled anew; the mixture of the curve is small."""
    counts = (10, 50) if sizes.quick else (10, 30, 100, 300, 1000)
    return [with_extent(mixture_problem(random_mixture(*SMALL, n), "a random mixture"), n) for n in counts]


MIXTURE = Workload(
    "gmm",
    "Gaussian mixture",
    _mixture_goldens,
    lambda: (
        mixture_example.gmm_objective,
        (0.0, *mixture_example.read(mixture_example.DATA / SHIPPED_MIXTURE[0][0]).arguments),
    ),
    _mixture_problems,
    "points",
    _mixture_curve,
)


# -----------------------------------------------------------------------------
# ADBench's bundle adjustment: the errors of p measurements, and the 2 × 15 block of the Jacobian of each.
#
# ADBench's files replicate one measurement. Here all but the first differ from it by a percent, so that branches vary.
# The Jacobian is sparse: these blocks, and ∂(1 − w²)/∂w = −2w, which takes no time.

SHIPPED_BUNDLE = "ba1_n49_m7776_p31843.txt"
BUNDLE_NAMES = ("camera", "point", "weight")
CHECKED_BUNDLE = 20
#: measurements of one piece of a problem that does not fit into memory
PIECE = 1 << 17


def measurements(path: Path, count: int, seed: int = 1) -> tuple[Measurements, Any]:
    """(`count` measurements around the one of the file, which is the first; the file)."""
    file = references.read_bundle(path)
    inputs = np.tile(file.inputs, (count, 1))
    inputs[1:] *= 1 + 0.01 * np.random.default_rng(seed).normal(size=(count - 1, len(file.inputs)))
    features = np.tile(file.feature, (count, 1))
    return Measurements(inputs[:, :11].copy(), inputs[:, 11:14].copy(), inputs[:, 14].copy(), features), file


def bundle_problem(path: Path, count: int, seed: int = 1) -> Problem:
    """A problem with `count` measurements."""
    bundle_data, file = measurements(path, count, seed)
    call = ours.Call(bundle_example.reprojection_error, (np.zeros((count, 2)), *bundle_data.arguments))
    errors = np.array([references.reprojection(z, file.feature) for z in bundle_data.inputs[:CHECKED_BUNDLE]])
    blocks = np.array(
        [
            references.jacobian(lambda z: references.reprojection(z, file.feature), z)
            for z in bundle_data.inputs[:CHECKED_BUNDLE]
        ]
    )
    return Problem(
        f"{count} measurements around that of {path.name}", count,
        (
            Task("value", bundle_data, errors, 5e-6, lambda: ours.value(call, "error"), absolute=True),
            Task("jacobian", bundle_data, blocks, 1e-8, lambda: ours.rows(call, BUNDLE_NAMES, "error")),
        ),
        count,
    )  # fmt: skip


def _first(path: Path) -> tuple[Any, ...]:
    given = bundle_example.read(path, 1)
    return given.cameras[0], given.points[0], float(given.weights[0]), given.features[0]


def _bundle_goldens() -> Sequence[Golden]:
    def errors(name: str) -> Any:
        return bundle_example.reprojection_error(np.zeros(2), *_first(bundle_example.DATA / name)).error

    def slope(name: str) -> float:
        one = _first(bundle_example.DATA / name)
        _, back = rg.vjp(bundle_example.reprojection_error, np.zeros(2), *one)
        return float(back({"error": np.array([1.0, 0.0])}).camera[0])

    def entries() -> float:
        return float(len(references.sparsity(references.read_bundle(bundle_example.DATA / "test.txt"))[0]))

    return [
        Golden("test.txt, the first error", -0.2690488, 1e-6, lambda: float(errors("test.txt")[0])),
        Golden("test.txt, the second", 0.2599448, 1e-6, lambda: float(errors("test.txt")[1])),
        Golden("test.txt, entries of the Jacobian", 310, 0, entries),
        Golden("ba1, J₀₀", -461.4463210015993, 6e-9 * 1200, lambda: slope(SHIPPED_BUNDLE)),
    ]


def _bundle_problems(sizes: Sizes) -> Sequence[Problem]:
    return [
        bundle_problem(
            bundle_example.DATA / SHIPPED_BUNDLE,
            1000 if sizes.quick else references.read_bundle(bundle_example.DATA / SHIPPED_BUNDLE).p,
        )
    ]


def _bundle_curve(sizes: Sizes) -> Sequence[Problem]:
    counts = (100, 1000) if sizes.quick else (100, 300, 1000, 3000, 10_000, 31_843)
    return [with_extent(bundle_problem(bundle_example.DATA / SHIPPED_BUNDLE, n), n) for n in counts]


def _bundle_streams(sizes: Sizes) -> Sequence[Stream]:
    """All files of the folder, up to nine million measurements, in pieces of some hundred megabytes."""
    if not sizes.full or sizes.data is None:
        return []
    paths = sorted((sizes.data / "ba").glob("ba*.txt"), key=lambda path: references.read_bundle(path).p)
    return [Stream(path.name, references.read_bundle(path).p, functools.partial(_pieces, path)) for path in paths]


def _pieces(path: Path) -> Iterator[Problem]:
    left, seed = references.read_bundle(path).p, 0
    while left > 0:
        seed += 1
        yield bundle_problem(path, min(left, PIECE), seed)
        left -= PIECE


BUNDLE = Workload(
    "ba",
    "bundle adjustment",
    _bundle_goldens,
    lambda: (bundle_example.reprojection_error, (np.zeros(2), *_first(bundle_example.DATA / SHIPPED_BUNDLE))),
    _bundle_problems,
    "measurements",
    _bundle_curve,
    _bundle_streams,
)
