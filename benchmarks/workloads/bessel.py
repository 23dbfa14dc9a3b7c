"""A Bessel function by its series: with products in place by a dirty ancilla, and in lognums.

    J₂(z) = Σₖ sₖ,   s₀ = (z/2)²/2,   sₖ = −sₖ₋₁ (z/2)² / (k (k + 2)),   until |sₖ| ≤ 10⁻⁸

Each sₖ is a multiple of z to the power of 2k + 2, which gives the derivatives of the truncated sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from retrograd.benchmarks import ours
from retrograd.benchmarks.data import Numbers, Reals
from retrograd.benchmarks.workload import Golden, Problem, Sizes, Task, Workload, with_extent
from retrograd.examples import bessel

import retrograd as rg
from retrograd.runtime._reversible import Reversible

#: z of the curve: the number of passes grows with z
ARGUMENTS = (0.1, 0.5, 1.0, 2.0, 4.0, 7.0, 10.0)


def reference(z: Reals, atol: float = 1e-8) -> tuple[Reals, Reals, Reals]:
    """(J₂, J₂′, J₂″) of each number, for the truncated series. z ≠ 0."""
    quarter = (z / 2) ** 2
    term = quarter / 2
    value, slope, bend = term.copy(), 2 * term, 2 * term
    going = np.abs(term) > atol
    k = 0
    while going.any():
        k += 1
        term = np.where(going, term * -quarter / (k * (k + 2)), 0.0)
        value, slope = value + term, slope + (2 * k + 2) * term
        bend = bend + (2 * k + 2) * (2 * k + 1) * term
        going &= np.abs(term) > atol
    return value, slope / z, bend / z**2


def passes(z: float, atol: float = 1e-8) -> int:
    """Executions of the loop."""
    term, k = (z / 2) ** 2 / 2, 0
    while abs(term) > atol:
        k += 1
        term *= (z / 2) ** 2 / (k * (k + 2))
    return k


def _goldens(function: Reversible) -> Sequence[Golden]:
    def once(of: Any) -> float:
        return float(of(0.0, 1.0))

    # For lognums the second derivative reaches 1e-8 in a finer format only.
    finer = function if function is bessel.bessel else function.with_options(format=rg.Format(64, 40))
    return [
        Golden("J₂(1)", 0.1149034849298, 1e-8, lambda: float(function(0.0, 1.0).out)),
        Golden("J₂′(1)", 0.2102436158518, 1e-8, lambda: once(rg.grad(function, "z"))),
        Golden("J₂″(1)", 0.13446683853, 1e-8, lambda: once(rg.hessian(finer, "z"))),
    ]


def problem(function: Reversible, z: Reals, hessian: bool = True) -> Problem:
    call = ours.Call(function, (np.zeros(len(z)), z), {"nu": None, "atol": None})
    value, slope, bend = reference(z)
    data = Numbers(z)
    tasks = [
        Task("value", data, value, 1e-9, lambda: ours.value(call, "out"), absolute=True),
        Task("gradient", data, slope, 1e-8, lambda: ours.gradient(call, ["z"]), absolute=True),
    ]
    if hessian:
        # Lognums with 32 binary places reach 1e-8 at z = 1, and slightly less at smaller z.
        tasks.append(Task("hessian", data, bend, 1e-7, lambda: ours.hessian(call, "z", each=True), absolute=True))
    return Problem(f"{len(z)} numbers between {z.min():.1f} and {z.max():.1f}", len(z), tuple(tasks))


def _workload(name: str, how: str, function: Reversible) -> Workload:
    def problems(sizes: Sizes) -> Sequence[Problem]:
        z = np.random.default_rng(1).uniform(0.5, 1.5, 3000 if sizes.quick else 100_000)
        return [problem(function, z)]

    def curve(sizes: Sizes) -> Sequence[Problem]:
        count = 300 if sizes.quick else 3000
        return [
            with_extent(problem(function, np.full(count, z), hessian=False), passes(z))
            for z in (ARGUMENTS[::3] if sizes.quick else ARGUMENTS)
        ]

    return Workload(
        name, f"Bessel J₂, {how}", lambda: _goldens(function), lambda: (function, (0.0, 1.0)),
        problems, "passes of the loop", curve,
    )  # fmt: skip


DIRTY = _workload("bessel", "dirty product", bessel.bessel)
LOGNUM = _workload("bessel-lognum", "lognum", bessel.bessel_log)
