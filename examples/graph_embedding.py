"""Embedding a graph: the loss that is zero where the Petersen graph lies in space as it should.

    L = var(l₁) + var(l₂) + e^max(0, mean(l₁) − mean(l₂) + 1/10) − 1

l₁ are the distances between the vertices that an edge connects, l₂ between those that none does. The loss is zero where all
edges are equally long, all other pairs are equally far apart, and these are farther by a tenth at least. For the Petersen
graph that takes five dimensions: there l₂ / l₁ = √2 (`solution`).

Distances and means are needed on the way to the loss, and are no part of the answer. `with rg.routine() as r:` marks the
way; the loss is added to `out`; `~r` goes the same way back, and where it began all distances are zero. So the memory is
free again without anything having been erased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import retrograd as rg
from retrograd import Array, fixed, reversible

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERTICES = 10
#: a pentagon outside, a pentagram inside, five spokes
EDGES = np.array(
    [(i, (i + 1) % 5) for i in range(5)] + [(5 + i, 5 + (i + 2) % 5) for i in range(5)] + [(i, i + 5) for i in range(5)]
)
_CONNECTED = {frozenset(edge) for edge in EDGES.tolist()}
#: all pairs without an edge
OTHERS = np.array(
    [(i, j) for i in range(VERTICES) for j in range(i + 1, VERTICES) if frozenset((i, j)) not in _CONNECTED]
)


@reversible
def add_distances(lengths: Array[fixed, "m"], pairs: rg.static, x: Array[fixed, VERTICES, "k"]) -> None:
    """lengths[e] += |x[i] − x[j]| for the e-th pair (i, j). Inverse: −=. Error: 1/|x[i] − x[j]| last places."""
    for e in range(len(pairs)):
        lengths[e] += rg.sqrt(rg.sum((x[pairs[e, 0]] - x[pairs[e, 1]]) ** 2))


@reversible
def embedding_loss(out: fixed, x: Array[fixed, VERTICES, "k"]) -> None:
    """out += L(x), for positions x[vertex] in k dimensions. Inverse: −=. Error: 10⁻⁸ for positions of the size of 1."""
    with rg.routine() as r:
        near = rg.zeros(len(EDGES))
        far = rg.zeros(len(OTHERS))
        add_distances(near, EDGES, x)
        add_distances(far, OTHERS, x)
        near_mean = rg.mean(near)
        far_mean = rg.mean(far)
        gap = near_mean - far_mean + 0.1
    out += rg.sum((near - near_mean) ** 2) / (len(EDGES) - 1)
    out += rg.sum((far - far_mean) ** 2) / (len(OTHERS) - 1)
    if gap > 0:
        out += rg.exp(gap) - 1
    ~r


def reference(x: NDArray[np.float64]) -> float:
    """L(x) in floating point."""
    near, far = (np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1) for pairs in (EDGES, OTHERS))
    gap = near.mean() - far.mean() + 0.1
    return float(near.var(ddof=1) + far.var(ddof=1) + np.exp(max(0.0, gap)) - 1)


def solution() -> NDArray[Any]:
    """Positions in five dimensions where the loss is zero: the eigenvectors of the adjacency matrix to the eigenvalue 1."""
    adjacency = np.zeros((VERTICES, VERTICES))
    for i, j in EDGES:
        adjacency[i, j] = adjacency[j, i] = 1
    values, vectors = np.linalg.eigh(adjacency)
    return vectors[:, np.isclose(values, 1)]


def main() -> None:
    """The loss of random embeddings and of the solution."""
    generator = np.random.default_rng(1)
    for k in range(1, 11):
        x = generator.normal(size=(VERTICES, k))
        out = embedding_loss(0.0, x).out
        print(f"k = {k:2}  loss of a random embedding {out:.9f}, error {out - reference(x):+.1e}")
    x = solution()
    near, far = (np.linalg.norm(x[i] - x[j]) for (i, j) in (EDGES[0], OTHERS[0]))
    print(f"k =  5  loss of the solution {embedding_loss(0.0, x).out:.9f}, l₂/l₁ = {far / near:.9f}")


if __name__ == "__main__":
    main()
