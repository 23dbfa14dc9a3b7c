"""A workload: goldens, problems of several sizes, and for each problem a few tasks that every system computes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from retrograd.benchmarks.ours import Ours, Reals

from retrograd.runtime._reversible import Reversible


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
    #: data of the peers: a dataclass of arrays, see `benchmarks.data`
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
