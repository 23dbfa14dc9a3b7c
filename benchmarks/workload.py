"""What a workload is: goldens, problems of several sizes, and for each a few tasks that every system is given."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from retrograd.benchmarks.ours import Ours, Reals

from retrograd.functions.reversible import Reversible


@dataclass(frozen=True)
class Golden:
    """A number that others have published, or that is known by heart, and how near we must come."""

    what: str
    expected: float
    tolerance: float
    found: Callable[[], float]


@dataclass(frozen=True)
class Task:
    """One quantity that all systems compute from the same data."""

    #: value, gradient, jacobian or hessian
    what: str
    #: what peers are given: a dataclass of arrays, that of the workload's module in `peers.data`
    data: Any
    #: what a reference in float64 has, of the first numbers of the result
    exact: Reals
    #: how far ours may be from it: of the largest of them, or of 1 where `absolute`
    tolerance: float
    ours: Callable[[], Ours]
    absolute: bool = False

    def error(self, found: Any) -> float:
        """The largest difference from the reference, as the tolerance counts it; NaN is infinitely far away."""
        return self._distance(found, 1.0 if self.absolute else self._largest())

    def relative_error(self, found: Any) -> float:
        """The same as a part of the largest number."""
        return self._distance(found, self._largest())

    def _largest(self) -> float:
        return float(np.abs(self.exact).max()) or 1.0

    def _distance(self, found: Any, unit: float) -> float:
        flat, exact = np.ravel(np.asarray(found, dtype=float)), np.ravel(self.exact)
        if len(flat) < len(exact) or not np.isfinite(flat).all():
            return float("inf")
        return float(np.abs(flat[: len(exact)] - exact).max() / unit)


@dataclass(frozen=True)
class Problem:
    """A workload at one size."""

    #: what the size is, in words
    size: str
    #: times are for one of so many
    evaluations: int
    tasks: tuple[Task, ...]
    #: the size as one number, for curves
    extent: float = 0.0


@dataclass(frozen=True)
class Sizes:
    """What one run of all workloads asks for."""

    quick: bool
    #: a folder with ADBench's files (ba/, gmm/1k, gmm/10k); None: those that come with Retrograd
    data: Path | None = None
    #: bundle adjustment at all sizes of the papers
    full: bool = False


@dataclass(frozen=True)
class Stream:
    """A problem too large for memory."""

    name: str
    evaluations: int
    #: makes the pieces, one when it is asked for
    pieces: Callable[[], Iterator[Problem]]


def _no_streams(sizes: Sizes) -> Sequence[Stream]:
    return ()


def _none(sizes: Sizes) -> Sequence[Problem]:
    return ()


@dataclass(frozen=True)
class Workload:
    """One row of the list: where its definition lies, what is known of it, what is asked."""

    name: str
    title: str
    goldens: Callable[[], Sequence[Golden]]
    #: a function and arguments on which instructions, cycles, level and energy are counted
    counted: Callable[[], tuple[Reversible, tuple[Any, ...]]]
    #: what is timed, beside peers
    problems: Callable[[Sizes], Sequence[Problem]] = _none
    #: the axis of the curves, and problems of growing size: of them only ours is timed
    axis: str = ""
    curve: Callable[[Sizes], Sequence[Problem]] = _none
    #: sizes that do not fit into memory: problems one after the other, of which each is a piece; by name of the whole
    streams: Callable[[Sizes], Sequence[Stream]] = _no_streams


def with_extent(problem: Problem, extent: float) -> Problem:
    """The same problem at that place of a curve."""
    return dataclasses.replace(problem, extent=extent)
