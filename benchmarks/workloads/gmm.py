"""ADBench's Gaussian mixture: the log-likelihood of n points, and its gradient by all parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from retrograd.benchmarks import ours
from retrograd.benchmarks.data import Mixture
from retrograd.benchmarks.references import adbench
from retrograd.benchmarks.workload import Golden, Problem, Sizes, Task, Workload, with_extent
from retrograd.examples import gmm as example

NAMES = ("alphas", "means", "icf")
#: d and k of the mixture for quick runs and curves
SMALL = (4, 8)
#: the files that come with Retrograd: file, points (None: all), published value
SHIPPED = (("test.txt", 8.07380408004975791), ("1k_d10_K25.txt", -25649.6526211973))
#: the files of a folder with ADBench's data
LARGE = (
    ("10k/gmm_d10_K25.txt", -290193.38797503925),
    ("10k/gmm_d10_K5.txt", -315926.321042582),
)


def _random(d: int, k: int, n: int) -> adbench.Mixture:
    """A small random mixture, for runs in which a large one would take too long to compile."""
    generator = np.random.default_rng(d)
    parts = [generator.normal(size=shape) for shape in ((k,), (k, d), (k, d * (d + 1) // 2), (n, d))]
    return adbench.Mixture(parts[0], parts[1], 0.5 * parts[2], parts[3], 1.0, 0)


def problem(file: adbench.Mixture, name: str) -> Problem:
    call = ours.Call(
        example.gmm_objective,
        (np.zeros(1), *file),
        ours.only("out", example.gmm_objective) | {"gamma": None, "m": None},
    )
    value, by = adbench.likelihood_gradient(*file)
    data = Mixture(*file)
    slopes = np.concatenate([np.ravel(part) for part in by[:3]])
    n = len(file.x)
    return Problem(
        f"{n} points of {name}: d = {file.x.shape[1]}, k = {len(file.alphas)}", 1,
        (
            Task("value", data, np.array([value]), 5e-7 + 2e-9 * n, lambda: ours.value(call, "out"), absolute=True),
            Task("gradient", data, slopes, 3e-8, lambda: ours.gradient(call, NAMES)),
        ),
        n,
    )  # fmt: skip


def _goldens() -> Sequence[Golden]:
    """The published values. That of a thousand points takes a while; in a full run it is the task `value`."""
    file = example.read(example.DATA / SHIPPED[0][0])
    found = example.read(example.DATA / SHIPPED[1][0])
    return [
        Golden(SHIPPED[0][0], SHIPPED[0][1], 1e-9, lambda: float(example.gmm_objective(0.0, *file.arguments).out)),
        # The value of the reference, with which every system is compared.
        Golden(f"{SHIPPED[1][0]}, the reference", SHIPPED[1][1], 1e-9, lambda: adbench.likelihood_gradient(*found.arguments)[0]),
    ]  # fmt: skip


def _problems(sizes: Sizes) -> Sequence[Problem]:
    if sizes.quick:
        return [problem(_random(*SMALL, 50), "a random mixture")]
    file = SHIPPED[1][0]
    out = [problem(adbench.read_mixture(example.DATA / file), file)]
    if sizes.data is not None:
        for name, published in LARGE:
            large = adbench.read_mixture(sizes.data / "gmm" / name)
            found = adbench.likelihood(*large)
            if not abs(found - published) <= 1e-12 * abs(published):
                raise AssertionError(f"{name}: the reference has {found!r}, and {published!r} is published")
            out.append(problem(large, name))
    return out


def _curve(sizes: Sizes) -> Sequence[Problem]:
    """The number of points is part of an argument's type, so each size is compiled anew; the mixture of the curve is small."""
    counts = (10, 50) if sizes.quick else (10, 30, 100, 300, 1000)
    return [with_extent(problem(_random(*SMALL, n), "a random mixture"), n) for n in counts]


WORKLOAD = Workload(
    "gmm",
    "Gaussian mixture",
    _goldens,
    lambda: (example.gmm_objective, (0.0, *example.read(example.DATA / SHIPPED[0][0]).arguments)),
    _problems,
    "points",
    _curve,
)
