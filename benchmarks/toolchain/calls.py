"""Microseconds of a warm call of a small function, and of its gradient: the overhead of a call from Python."""

from __future__ import annotations

from retrograd.benchmarks.measure import Row, timed

import retrograd as rg
from retrograd.runtime._binding import fixed
from retrograd.runtime._reversible import reversible


@reversible
def small(y: fixed, x: fixed) -> None:
    """y += x² + sin x"""
    y += x * x + rg.sin(x)


def measure(quick: bool) -> list[Row]:
    """The minimum of repeats, since the overhead is that of Python alone."""
    slope, both = rg.grad(small, "x"), rg.value_and_grad(small, "x")
    tasks = {
        "f(x)": lambda: small(0.0, 1.5),
        "rg.grad(f)(x)": lambda: slope(0.0, 1.5),
        "rg.value_and_grad(f)(x)": lambda: both(0.0, 1.5),
    }
    bars = {"f(x)": 60.0}
    spent = timed(tasks, 5 if quick else 15)
    return [
        Row(f"warm call, {name}", 1e6 * best, "µs", bars.get(name, 100.0), lower_is_better=True)
        for name, (_, best) in spent.items()
    ]
