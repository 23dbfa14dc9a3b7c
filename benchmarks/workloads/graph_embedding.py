"""The Petersen graph in k dimensions: L = var(l₁) + var(l₂) + e^max(0, mean(l₁) − mean(l₂) + 1/10) − 1, its gradient and Hessian."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.benchmarks import ours
from retrograd.benchmarks.data import Embeddings, Reals
from retrograd.benchmarks.references import formulas
from retrograd.benchmarks.workload import Golden, Problem, Task, Workload, with_extent
from retrograd.examples import graph_embedding as example

import retrograd as rg

PAIRS = np.concatenate([example.EDGES, example.OTHERS])
#: embeddings whose values and gradients are compared with the reference
CHECKED = 20
DIMENSIONS = (2, 4, 6, 8, 10)


def slope(x: NDArray[Any]) -> NDArray[Any]:
    """∂L/∂x by hand, also for complex numbers: ∂l/∂xᵢ = (xᵢ − xⱼ)/l for each pair."""
    i, j = PAIRS.T
    d = x[i] - x[j]
    lengths = np.sqrt((d**2).sum(axis=1))
    edges = len(example.EDGES)
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


def problem(k: int, count: int, hessian: bool = True) -> Problem:
    x = np.random.default_rng(k).normal(size=(count, example.VERTICES, k))
    call = ours.Call(example.embedding_loss, (np.zeros(count), x))
    data = Embeddings(x, PAIRS, len(example.EDGES))

    def loss(x: Any) -> Any:
        return formulas.embedding(np.array(0.0), x, example.EDGES, example.OTHERS)[0]

    values = np.array([example.reference(one) for one in x[:CHECKED]])
    slopes = np.array([formulas.jacobian(loss, one) for one in x[:2]])
    tasks = [
        Task("value", data, values, 1e-8, lambda: ours.value(call, "out"), absolute=True),
        Task("gradient", data, slopes, 1e-7, lambda: ours.gradient(call, ["x"])),
    ]
    if hessian:
        bends: Reals = formulas.jacobian(slope, x[0])
        tasks.append(Task("hessian", data, bends, 1e-6, lambda: ours.hessian(call, "x")))
    return Problem(f"k = {k}, {count} embeddings; the Hessian of one", count, tuple(tasks), k)


def _goldens() -> Sequence[Golden]:
    """Known minima; tests/examples/test_training.py finds them by descent."""
    x = example.solution()

    def loss() -> float:
        return float(example.embedding_loss(0.0, x).out)

    def steepest() -> float:
        return float(np.abs(rg.grad(example.embedding_loss, "x")(0.0, x)).max())

    return [
        Golden("the least loss in five dimensions", 0.0, 10 * 2.0**-32, loss),
        Golden("its steepest slope", 0.0, 1e-8, steepest),
        Golden("l₂/l₁ there", float(np.sqrt(2)), 1e-12, lambda: example.ratio(x)),
    ]


WORKLOAD = Workload(
    "graph",
    "graph embedding",
    _goldens,
    lambda: (example.embedding_loss, (0.0, np.random.default_rng(5).normal(size=(example.VERTICES, 5)))),
    lambda sizes: [problem(10, 40 if sizes.quick else 1000)],
    "dimensions k",
    lambda sizes: [
        with_extent(problem(k, 20 if sizes.quick else 200, hessian=not sizes.quick), k)
        for k in ((2,) if sizes.quick else DIMENSIONS)
    ],
)
