"""Timing that resists drift of the machine: interleaved repeats, median and minimum, ratios in one run, on one core."""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from retrograd.simulator.engines import tiering

#: least duration of a spell: a shorter task is repeated within it
SPELL = 2e-3
#: variables that limit the libraries of peers to one thread; they are read when the library is imported
_SINGLE = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Row:
    """One measured quantity: name, value, unit, and its bar (None: no bar)."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    lower_is_better: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the bar is met."""
        if self.bar is None:
            return None
        return self.value <= self.bar if self.lower_is_better else self.value >= self.bar


class Spent(NamedTuple):
    """Seconds of a task."""

    median: float
    minimum: float


def seconds(
    tasks: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] | None = None,
    warm: Mapping[str, Callable[[], object]] | None = None,
) -> dict[str, Spent]:
    """Seconds of each task, by the wall's clock or another. The tasks take turns, so that a slow spell of the machine affects all of them.

    `warm`: name -> a call before each turn of the task, which is not timed.
    """
    spent: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            if warm and name in warm:
                warm[name]()
            spent[name].append(_taken(task, clock))
    return {name: Spent(statistics.median(times), min(times)) for name, times in spent.items()}


def _taken(task: Callable[[], object], clock: Callable[[], float] | None) -> float:
    now = clock or time.perf_counter
    begun = now()
    task()
    return now() - begun


def timed(
    tasks: Mapping[str, Callable[[], object]],
    repeats: int,
    budget: float = float("inf"),
    spell: float = SPELL,
    clock: Callable[[], float] | None = None,
) -> dict[str, Spent]:
    """`seconds` of tasks of any length: a short task is repeated within a spell, a task beyond the budget is timed once only.

    The first call of a spell is not timed if others follow: it finds caches that other tasks have filled.

    `budget`: seconds for all repeats of one task. Each task runs once before it is timed, or twice unless the first run shows that
    it is beyond the budget; a run that alone takes longer than the budget is the only run.
    """
    rounds: dict[str, int] = {}
    once: dict[str, Spent] = {}
    for name, task in tasks.items():
        taken = _taken(task, clock)
        if taken > budget:
            once[name] = Spent(taken, taken)
            continue
        taken = _taken(task, clock)
        if taken * repeats > budget >= taken:
            # The first run may compile code: an engine compiles once the batches of a program have taken long enough.
            taken = _taken(task, clock)
        rounds[name] = max(1, int(spell / taken)) if taken > 0 else 1
        if taken * repeats > budget:
            once[name] = Spent(taken, taken)

    def repeated(task: Callable[[], object], count: int) -> None:
        for _ in range(count):
            task()

    spells = {n: functools.partial(repeated, task, rounds[n]) for n, task in tasks.items() if n not in once}
    found = seconds(spells, repeats, clock, {name: tasks[name] for name in spells if rounds[name] > 1})
    many = {name: Spent(s.median / rounds[name], s.minimum / rounds[name]) for name, s in found.items()}
    return {name: once.get(name) or many[name] for name in tasks}


@contextmanager
def optimised() -> Iterator[None]:
    """Optimised code at once, and for lanes too, in this block, so that no code is timed that better code is about to replace."""
    costs = tiering.policy.costs
    before = costs.wait, costs.lanes
    costs.wait, costs.lanes = float("inf"), 0.0
    try:
        yield
    finally:
        costs.wait, costs.lanes = before


@contextmanager
def one_core() -> Iterator[int | None]:
    """Run this process on one core, and libraries imported within the block on one thread. Yields the number of the core.

    Yields None if the system does not let a process choose its core. Afterwards environment and cores are as before.
    """
    before = {name: os.environ.get(name) for name in _SINGLE}
    os.environ.update(dict.fromkeys(_SINGLE, "1"))
    cores: set[int] = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    core = max(cores, default=None)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        if core is not None:
            os.sched_setaffinity(0, cores)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
