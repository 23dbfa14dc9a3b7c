"""Functions of numbers, matrices and graphs: a Bessel function, a trace of sparse matrices, a graph embedding.

The Bessel function by its series, with products in place by a dirty ancilla, and in lognums:

    J₂(z) = Σₖ sₖ,   s₀ = (z/2)²/2,   sₖ = −sₖ₋₁ (z/2)² / (k (k + 2)),   until |sₖ| ≤ 10⁻⁸

Each sₖ is a multiple of z to the power of 2k + 2, which gives the derivatives of the truncated sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.benchmarks import ours, references
from retrograd.benchmarks.workload import (
    Embeddings,
    Golden,
    Numbers,
    Problem,
    Reals,
    Sizes,
    SparsePair,
    Task,
    Workload,
    with_extent,
)
from retrograd.examples import bessel, sparse_dot
from retrograd.examples import graph_embedding as embedding_example

import retrograd as rg
from retrograd import library
from retrograd.runtime._reversible import Reversible

#: z of the curve: the number of passes grows with z
ARGUMENTS = (0.1, 0.5, 1.0, 2.0, 4.0, 7.0, 10.0)


def bessel_reference(z: Reals, atol: float = 1e-8) -> tuple[Reals, Reals, Reals]:
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


def _bessel_goldens(function: Reversible) -> Sequence[Golden]:
    def once(of: Any) -> float:
        return float(of(0.0, 1.0))

    # For lognums the second derivative reaches 1e-8 in a finer format only.
    finer = function if function is bessel.bessel else function.with_options(format=rg.Format(64, 40))
    return [
        Golden("J₂(1)", 0.1149034849298, 1e-8, lambda: float(function(0.0, 1.0).out)),
        Golden("J₂′(1)", 0.2102436158518, 1e-8, lambda: once(rg.grad(function, "z"))),
        Golden("J₂″(1)", 0.13446683853, 1e-8, lambda: once(rg.hessian(finer, "z"))),
    ]


def bessel_problem(function: Reversible, z: Reals, hessian: bool = True) -> Problem:
    call = ours.Call(function, (np.zeros(len(z)), z), {"nu": None, "atol": None})
    value, slope, bend = bessel_reference(z)
    bessel_data = Numbers(z)
    tasks = [
        Task("value", bessel_data, value, 1e-9, lambda: ours.value(call, "out"), absolute=True),
        Task("gradient", bessel_data, slope, 1e-8, lambda: ours.gradient(call, ["z"]), absolute=True),
    ]
    if hessian:
        # Lognums with 32 binary places reach 1e-8 at z = 1, and slightly less at smaller z.
        tasks.append(
            Task("hessian", bessel_data, bend, 1e-7, lambda: ours.hessian(call, "z", each=True), absolute=True)
        )
    return Problem(f"{len(z)} numbers between {z.min():.1f} and {z.max():.1f}", len(z), tuple(tasks))


def _workload(name: str, how: str, function: Reversible) -> Workload:
    def problems(sizes: Sizes) -> Sequence[Problem]:
        z = np.random.default_rng(1).uniform(0.5, 1.5, 3000 if sizes.quick else 100_000)
        return [bessel_problem(function, z)]

    def curve(sizes: Sizes) -> Sequence[Problem]:
        count = 300 if sizes.quick else 3000
        return [
            with_extent(bessel_problem(function, np.full(count, z), hessian=False), passes(z))
            for z in (ARGUMENTS[::3] if sizes.quick else ARGUMENTS)
        ]

    return Workload(
        name, f"Bessel J₂, {how}", lambda: _bessel_goldens(function), lambda: (function, (0.0, 1.0)),
        problems, "passes of the loop", curve,
    )  # fmt: skip


DIRTY = _workload("bessel", "dirty product", bessel.bessel)
LOGNUM = _workload("bessel-lognum", "lognum", bessel.bessel_log)


# -----------------------------------------------------------------------------
# trace(AᵀB) = Σᵢⱼ Aᵢⱼ Bᵢⱼ of two sparse matrices, by merging their columns. ∂/∂A is B at A's entries, ∂/∂B is A at B's.

DENSITY = 0.05


def _dense(n: int) -> tuple[Reals, Reals]:
    generator = np.random.default_rng(1)
    a, b = (sparse_dot.sparse_random(generator, n, n, DENSITY) for _ in range(2))
    a[:, 0] = 0  # an empty column
    b[:, 1] = 0
    return a, b


def sparse_problem(n: int, function: rg.Reversible = library.sparse_dot) -> Problem:
    x, y = _dense(n)
    a, b = sparse_dot.csc(x), sparse_dot.csc(y)
    arguments = (*a, *b)
    call = ours.Call(function, (np.zeros(1), *arguments), ours.only("out", function))
    sparse_data = SparsePair(*arguments, (n, n))
    slopes = np.concatenate([y[_places(a)], x[_places(b)]])
    names = ["a_values", "b_values"]
    return Problem(
        f"{n} × {n}, {len(a[1])} and {len(b[1])} entries", 1,
        (
            Task("value", sparse_data, np.array([(x * y).sum()]), 2.0**-32 * len(a[1]), lambda: ours.value(call, "out"), absolute=True),
            Task("gradient", sparse_data, slopes, 2e-10, lambda: ours.gradient(call, names)),
        ),
        n,
    )  # fmt: skip


def _places(matrix: tuple[Any, ...]) -> tuple[Any, Any]:
    """(rows, columns) of the entries, in order."""
    starts, rows, _ = matrix
    return rows, np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _sparse_goldens() -> Sequence[Golden]:
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


SPARSE = Workload(
    "sparse-dot",
    "trace(AᵀB), sparse",
    _sparse_goldens,
    lambda: (library.sparse_dot, (0.0, *sparse_dot.csc(_dense(60)[0]), *sparse_dot.csc(_dense(60)[1]))),
    lambda sizes: [sparse_problem(200 if sizes.quick else 1000)],
    "rows and columns",
    lambda sizes: [
        with_extent(sparse_problem(n), n) for n in ((50, 200) if sizes.quick else (100, 200, 400, 700, 1000))
    ],
)


# -----------------------------------------------------------------------------
# The Petersen graph in k dimensions: L = var(l₁) + var(l₂) + e^max(0, mean(l₁) − mean(l₂) + 1/10) − 1, its gradient and Hessian.

PAIRS = np.concatenate([embedding_example.EDGES, embedding_example.OTHERS])
#: embeddings whose values and gradients are compared with the reference
CHECKED_EMBEDDING = 20
DIMENSIONS = (2, 4, 6, 8, 10)


def slope(x: NDArray[Any]) -> NDArray[Any]:
    """∂L/∂x by hand, also for complex numbers: ∂l/∂xᵢ = (xᵢ − xⱼ)/l for each pair."""
    i, j = PAIRS.T
    d = x[i] - x[j]
    lengths = np.sqrt((d**2).sum(axis=1))
    edges = len(embedding_example.EDGES)
    near, far = lengths[:edges], lengths[edges:]
    gap = near.mean() - far.mean() + 0.1
    penalty = np.exp(gap) if gap.real > 0 else 0.0
    by_near = 2 * (near - near.mean()) / (len(near) - 1) + penalty / len(near)
    by_far = 2 * (far - far.mean()) / (len(far) - 1) - penalty / len(far)
    pull = (np.concatenate([by_near, by_far]) / lengths)[:, None] * d
    out = np.zeros_like(x)
    np.add.at(out, i, pull)
    np.add.at(out, j, -pull)
    return out


def embedding_problem(k: int, count: int, hessian: bool = True) -> Problem:
    x = np.random.default_rng(k).normal(size=(count, embedding_example.VERTICES, k))
    call = ours.Call(embedding_example.embedding_loss, (np.zeros(count), x))
    embedding_data = Embeddings(x, PAIRS, len(embedding_example.EDGES))

    def loss(x: Any) -> Any:
        return references.embedding(np.array(0.0), x, embedding_example.EDGES, embedding_example.OTHERS)[0]

    values = np.array([embedding_example.reference(one) for one in x[:CHECKED_EMBEDDING]])
    slopes = np.array([references.jacobian(loss, one) for one in x[:2]])
    tasks = [
        Task("value", embedding_data, values, 1e-8, lambda: ours.value(call, "out"), absolute=True),
        Task("gradient", embedding_data, slopes, 1e-7, lambda: ours.gradient(call, ["x"])),
    ]
    if hessian:
        bends: Reals = references.jacobian(slope, x[0])
        tasks.append(Task("hessian", embedding_data, bends, 1e-6, lambda: ours.hessian(call, "x")))
    return Problem(f"k = {k}, {count} embeddings; the Hessian of one", count, tuple(tasks), k)


def _embedding_goldens() -> Sequence[Golden]:
    """Known minima; tests/examples/test_training.py finds them by descent."""
    x = embedding_example.solution()

    def loss() -> float:
        return float(embedding_example.embedding_loss(0.0, x).out)

    def steepest() -> float:
        return float(np.abs(rg.grad(embedding_example.embedding_loss, "x")(0.0, x)).max())

    return [
        Golden("the least loss in five dimensions", 0.0, 10 * 2.0**-32, loss),
        Golden("its steepest slope", 0.0, 1e-8, steepest),
        Golden("l₂/l₁ there", float(np.sqrt(2)), 1e-12, lambda: embedding_example.ratio(x)),
    ]


EMBEDDING = Workload(
    "graph",
    "graph embedding",
    _embedding_goldens,
    lambda: (
        embedding_example.embedding_loss,
        (0.0, np.random.default_rng(5).normal(size=(embedding_example.VERTICES, 5))),
    ),
    lambda sizes: [embedding_problem(10, 40 if sizes.quick else 1000)],
    "dimensions k",
    lambda sizes: [
        with_extent(embedding_problem(k, 20 if sizes.quick else 200, hessian=not sizes.quick), k)
        for k in ((2,) if sizes.quick else DIMENSIONS)
    ],
)
