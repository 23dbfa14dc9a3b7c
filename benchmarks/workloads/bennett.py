"""Bennett's scheme: kⁿ steps of an irreversible chain, by (2k − 1)ⁿ calls, with n(k − 1) + 2 states at a time."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from retrograd.benchmarks import ours
from retrograd.benchmarks.workload import Golden, Problem, Task, Workload, with_extent

import retrograd as rg
from retrograd import fixed, library, reversible

#: (k, n): calls and states by Bennett's formulas
GOLDEN = {(4, 4): (2401, 14), (2, 10): (59_049, 12)}


@reversible
def logistic(y: fixed, x: fixed) -> None:
    """y += 3.5 x (1 − x), which forgets whether x was below ½. Inverse: −=."""
    y += 3.5 * (x * (1 - x))


def _chain(steps: int, x: float) -> float:
    for _ in range(steps):
        x = 3.5 * (x * (1 - x))
    return x


def _states(k: int, n: int) -> Any:
    states = np.zeros(library.bennett_states(k, n))
    states[0] = 0.3
    return states


def products(k: int, n: int) -> int:
    """Executions of the product, forward and backward together."""
    counts = rg.run(library.bennett, logistic, k, n, _states(k, n)).machine.counts()
    return sum(n for name, n in counts.items() if name.startswith("fmul"))


def calls(k: int, n: int) -> float:
    """The executed calls of the step."""
    return products(k, n) / products(1, 0)


def _goldens() -> Sequence[Golden]:
    out = []
    for (k, n), (called, states) in GOLDEN.items():
        out.append(Golden(f"calls of the step, k = {k}, n = {n}", called, 0, functools.partial(calls, k, n)))
        out.append(Golden(f"states, k = {k}, n = {n}", states, 0, functools.partial(library.bennett_states, k, n)))
    return out


def _problem(k: int, n: int) -> Problem:
    """The chain converges to a cycle of four, so its errors do not grow."""
    call = ours.Call(library.bennett, (logistic, k, n, _states(k, n)[None]), {"states": 0})
    steps = library.bennett_steps(k, n)
    exact = np.array([0.3, _chain(steps, 0.3)])
    task = Task("value", None, exact, 1e-7, lambda: ours.value(call, "states"), absolute=True)
    return Problem(f"k = {k}, n = {n}: {steps} steps by {library.bennett_calls(k, n)} calls", steps, (task,), steps)


WORKLOAD = Workload(
    "bennett",
    "Bennett's scheme",
    _goldens,
    lambda: (library.bennett, (logistic, 2, 4, _states(2, 4))),
    lambda sizes: [_problem(2, 4)] if sizes.quick else [_problem(4, 4)],
    "steps of the chain",
    lambda sizes: [with_extent(_problem(2, n), 2.0**n) for n in ((2, 4) if sizes.quick else (2, 4, 6, 8, 10))],
)
