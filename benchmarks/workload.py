"""What a workload is: its data (plain arrays in float64, in natural units), its goldens, problems and tasks."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.benchmarks.ours import Ours, Reals
from retrograd.examples.gmm import Mixture

from retrograd.runtime._reversible import Reversible

__all__ = [
    "Bodies",
    "Embeddings",
    "Golden",
    "Measurements",
    "Mixture",
    "Numbers",
    "Polynomial",
    "Problem",
    "Product",
    "Reals",
    "Regression",
    "Sizes",
    "SparsePair",
    "Stream",
    "Task",
    "Wave",
    "Workload",
    "with_extent",
]

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
class Product:
    """Matrices A and B, and the weights W of the numbers of A B in a loss."""

    a: Reals
    b: Reals
    w: Reals


@dataclass(frozen=True)
class Regression:
    """Weights w, and rows x with the numbers y that they should give."""

    w: Reals
    x: Reals
    y: Reals

    def gradient(self) -> Reals:
        """∂/∂w Σᵢ (xᵢ·w − yᵢ)² / n."""
        found: Reals = 2 / len(self.y) * ((self.x @ self.w - self.y) @ self.x)
        return found


@dataclass(frozen=True)
class Polynomial:
    """Arguments of a cubic polynomial, and its coefficients, the constant first."""

    x: Reals
    coefficients: tuple[float, float, float, float]

    def value(self) -> Reals:
        a, b, c, d = self.coefficients
        found: Reals = a + self.x * (b + self.x * (c + self.x * d))
        return found


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


# -----------------------------------------------------------------------------
# A workload: goldens, problems of several sizes, and for each problem a few tasks that every system computes.


@dataclass(frozen=True)
class Golden:
    """A published or well-known number, and the tolerance around it."""

    what: str
    expected: float
    tolerance: float
    found: Callable[[], float]


@dataclass(frozen=True)
class Task:
    """One quantity that all systems compute from the same data."""

    #: value, gradient, jacobian or hessian
    what: str
    #: data of the peers: a dataclass of arrays, see above
    data: Any
    #: the first numbers of the result, by a reference in float64, or a function that computes them when they are first used
    exact: Reals | Callable[[], Reals]
    #: tolerance of our result: relative to the largest of them, or to 1 with `absolute`
    tolerance: float
    ours: Callable[[], Ours]
    absolute: bool = False

    @functools.cached_property
    def reference(self) -> Reals:
        """`exact`, computed."""
        return self.exact() if callable(self.exact) else self.exact

    def error(self, found: Any) -> float:
        """The largest difference from the reference, relative as for the tolerance; NaN counts as infinite."""
        return self._distance(found, 1.0 if self.absolute else self._largest())

    def relative_error(self, found: Any) -> float:
        """The same, relative to the largest number."""
        return self._distance(found, self._largest())

    def _largest(self) -> float:
        return float(np.abs(self.reference).max()) or 1.0

    def _distance(self, found: Any, unit: float) -> float:
        flat, exact = np.ravel(np.asarray(found, dtype=float)), np.ravel(self.reference)
        if len(flat) < len(exact) or not np.isfinite(flat).all():
            return float("inf")
        return float(np.abs(flat[: len(exact)] - exact).max() / unit)


@dataclass(frozen=True)
class Problem:
    """A workload at one size."""

    #: the size in words
    size: str
    #: evaluations in one call: times are divided by it
    evaluations: int
    tasks: tuple[Task, ...]
    #: the size as one number, for curves
    extent: float = 0.0


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    quick: bool
    #: a folder with ADBench's files (ba/, gmm/1k, gmm/10k); None: the files that come with Retrograd
    data: Path | None = None
    #: bundle adjustment at all sizes of the papers
    full: bool = False


@dataclass(frozen=True)
class Stream:
    """A problem too large for memory."""

    name: str
    evaluations: int
    #: makes the pieces, one at each step
    pieces: Callable[[], Iterator[Problem]]


def _no_streams(sizes: Sizes) -> Sequence[Stream]:
    return ()


def _none(sizes: Sizes) -> Sequence[Problem]:
    return ()


@dataclass(frozen=True)
class Workload:
    """One workload: the place of its definition, goldens, and problems."""

    name: str
    title: str
    goldens: Callable[[], Sequence[Golden]]
    #: a function and arguments, of which instructions, cycles, level and energy are counted
    counted: Callable[[], tuple[Reversible, tuple[Any, ...]]]
    #: problems that are timed, beside peers
    problems: Callable[[Sizes], Sequence[Problem]] = _none
    #: the axis of the curves, and problems of growing size, of which only our system is timed
    axis: str = ""
    curve: Callable[[Sizes], Sequence[Problem]] = _none
    #: problems beyond memory: name -> pieces in sequence
    streams: Callable[[Sizes], Sequence[Stream]] = _no_streams


def with_extent(problem: Problem, extent: float) -> Problem:
    """The same problem at that place of a curve."""
    return dataclasses.replace(problem, extent=extent)
