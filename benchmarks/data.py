"""The data of the workloads: plain arrays in float64, in natural units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.examples.gmm import Mixture

__all__ = ["Bodies", "Embeddings", "Measurements", "Mixture", "Numbers", "SparsePair", "Wave"]

Reals = NDArray[np.float64]
Integers = NDArray[Any]


@dataclass(frozen=True)
class Numbers:
    """Arguments of a function of one number."""

    z: Reals


@dataclass(frozen=True)
class SparsePair:
    """Two matrices of equal shape in compressed columns, with ascending rows."""

    a_starts: Integers
    a_rows: Integers
    a: Reals
    b_starts: Integers
    b_rows: Integers
    b: Reals
    shape: tuple[int, int]

    @property
    def common(self) -> tuple[Integers, Integers]:
        """(indices into a, into b) of the places where both matrices have entries."""
        columns = (np.repeat(np.arange(len(s) - 1), np.diff(s)) for s in (self.a_starts, self.b_starts))
        a, b = (c * self.shape[0] + rows for c, rows in zip(columns, (self.a_rows, self.b_rows), strict=True))
        _, of_a, of_b = np.intersect1d(a, b, assume_unique=True, return_indices=True)
        return of_a, of_b


@dataclass(frozen=True)
class Embeddings:
    """Positions x[which, vertex, coordinate]; all pairs of vertices, the `edges` connected pairs first."""

    x: Reals
    pairs: Integers
    edges: int


@dataclass(frozen=True)
class Measurements:
    """ADBench's data: for each measurement the camera (11), the point (3), the weight and the feature (2)."""

    cameras: Reals
    points: Reals
    weights: Reals
    features: Reals

    @property
    def arguments(self) -> tuple[Reals, Reals, Reals, Reals]:
        return self.cameras, self.points, self.weights, self.features

    @property
    def inputs(self) -> Reals:
        """The 15 inputs of each measurement."""
        return np.concatenate([self.cameras, self.points, self.weights[:, None]], axis=1)


@dataclass(frozen=True)
class Bodies:
    """Positions, velocities and G times masses, in AU and years; `steps` steps of h years."""

    q: Reals
    v: Reals
    gm: Reals
    steps: int
    h: float


@dataclass(frozen=True)
class Wave:
    """Fields q and p, and the medium c, on a grid; `steps` steps; the misfit of q on a line of cells from numbers that were seen."""

    q: Reals
    p: Reals
    c: Reals
    seen: Reals
    line: int
    steps: int

    def misfit(self, q: Reals) -> tuple[float, Reals]:
        """(Σᵢ (q[i, line] − seenᵢ)², its gradient by q)."""
        off = q[:, self.line] - self.seen
        by_q = np.zeros_like(q)
        by_q[:, self.line] = 2 * off
        return float(off @ off), by_q
