"""Timing that drift of the machine does not fool: interleaved repeats, median and minimum, ratios in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measured quantity: what, how much, in which unit, and the bar it is held against (None: no bar)."""

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


def seconds(tasks: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, tuple[float, float]]:
    """(median, minimum) seconds of each task, the tasks taken in turn so that a slow spell hits them all."""
    spent: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            begun = time.perf_counter()
            task()
            spent[name].append(time.perf_counter() - begun)
    return {name: (statistics.median(times), min(times)) for name, times in spent.items()}
