"""trace(AᵀB) = Σᵢⱼ Aᵢⱼ Bᵢⱼ of two sparse matrices, by merging their columns. ∂/∂A is B at A's entries, ∂/∂B is A at B's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from retrograd.benchmarks import ours
from retrograd.benchmarks.data import Reals, SparsePair
from retrograd.benchmarks.workload import Golden, Problem, Task, Workload, with_extent
from retrograd.examples import sparse_dot

import retrograd as rg
from retrograd import library

DENSITY = 0.05


def _dense(n: int) -> tuple[Reals, Reals]:
    generator = np.random.default_rng(1)
    a, b = (sparse_dot.sparse_random(generator, n, n, DENSITY) for _ in range(2))
    a[:, 0] = 0  # an empty column
    b[:, 1] = 0
    return a, b


def problem(n: int, function: rg.Reversible = library.sparse_dot) -> Problem:
    x, y = _dense(n)
    a, b = sparse_dot.csc(x), sparse_dot.csc(y)
    arguments = (*a, *b)
    call = ours.Call(function, (np.zeros(1), *arguments), ours.only("out", function))
    data = SparsePair(*arguments, (n, n))
    slopes = np.concatenate([y[_places(a)], x[_places(b)]])
    names = ["a_values", "b_values"]
    return Problem(
        f"{n} × {n}, {len(a[1])} and {len(b[1])} entries", 1,
        (
            Task("value", data, np.array([(x * y).sum()]), 2.0**-32 * len(a[1]), lambda: ours.value(call, "out"), absolute=True),
            Task("gradient", data, slopes, 2e-10, lambda: ours.gradient(call, names)),
        ),
        n,
    )  # fmt: skip


def _places(matrix: tuple[Any, ...]) -> tuple[Any, Any]:
    """(rows, columns) of the entries, in order."""
    starts, rows, _ = matrix
    return rows, np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _goldens() -> Sequence[Golden]:
    x, y = _dense(60)
    equal = np.where(x != 0, 1.5, 0.0)
    cases = {
        "A, B with an empty column each": (x, y),
        "A and a matrix of equal pattern": (x, equal),
        "A and 0": (x, 0 * x),
    }

    def found(function: rg.Reversible, a: Reals, b: Reals, more: tuple[int, ...]) -> float:
        return float(rg.run(function, 0.0, *sparse_dot.csc(a), *sparse_dot.csc(b), *more).values.out)

    out = []
    for name, (a, b) in cases.items():
        for function, more in ((library.sparse_dot, ()), (sparse_dot.trace_with_keeper, (len(a),))):
            out.append(
                Golden(
                    f"{name}, {function.__name__}", float((a * b).sum()), 2.0**-32 * 200,
                    lambda f=function, a=a, b=b, more=more: found(f, a, b, more),  # type: ignore[misc]
                )
            )  # fmt: skip
    return out


WORKLOAD = Workload(
    "sparse-dot",
    "trace(AᵀB), sparse",
    _goldens,
    lambda: (library.sparse_dot, (0.0, *sparse_dot.csc(_dense(60)[0]), *sparse_dot.csc(_dense(60)[1]))),
    lambda sizes: [problem(200 if sizes.quick else 1000)],
    "rows and columns",
    lambda sizes: [with_extent(problem(n), n) for n in ((50, 200) if sizes.quick else (100, 200, 400, 700, 1000))],
)
