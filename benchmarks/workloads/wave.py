"""Acoustic waves in two dimensions, and the gradient of a misfit by the medium, in memory that does not grow with the number of steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from retrograd.benchmarks import ours
from retrograd.benchmarks.data import Reals, Wave
from retrograd.benchmarks.references import simulations
from retrograd.benchmarks.workload import Golden, Problem, Task, Workload, with_extent
from retrograd.examples import wave as example

import retrograd as rg

#: cells on a side, and steps: quick and full
SIZES = ((64, 100), (256, 2500))


def data(n: int, steps: int) -> Wave:
    """A pulse in a homogeneous medium, as words hold it; the misfit is the distance of a line of cells from zero."""
    q, c = (rg.fixed.to_reals(rg.fixed.to_words(a)) for a in (example.pulse(n), example.medium(n)))
    return Wave(np.asarray(q), np.zeros((n, n)), np.asarray(c), np.zeros(n), n // 2, steps)


def gradient(n: int, steps: int) -> ours.Ours:
    """Our program for ∂misfit/∂c."""
    d = data(n, steps)
    axes = ours.only("out", example.misfit) | {"line": None}
    call = ours.Call(example.misfit, (np.zeros(1), d.q, d.p, d.c, d.seen, d.line, d.steps), axes)
    return ours.gradient(call, ["c"])


def _problem(n: int, steps: int) -> Problem:
    d = data(n, steps)

    @functools.cache
    def by_c() -> Reals:
        return simulations.misfit(d.q, d.p, d.c, steps, d.misfit)[1]

    forth = ours.Call(example.propagate, (d.q[None], d.p, d.c, steps), ours.only("q", example.propagate))
    return Problem(
        f"{n} × {n} cells, {steps} steps; each is a cell and step", n * n * steps,
        (
            Task("value", d, lambda: example.reference(d.q, d.p, d.c, steps)[0], 5e-9 * (10 + steps**0.5), lambda: ours.value(forth, "q"), absolute=True),
            Task("gradient", d, by_c, 3e-6, lambda: gradient(n, steps)),
        ),
        steps,
    )  # fmt: skip


def differing(n: int, steps: int) -> int:
    """Words of the fields that differ after running out and back: 0, or AssertionError. The fields do move."""
    d = data(n, steps)
    axes = ours.only("q", example.propagate) | {"p": 0}
    for count in (1, steps):
        program = ours.value(ours.Call(example.propagate, (d.q[None], d.p[None], d.c, count), axes), "q")
        if count == 1 and np.array_equal(program.run("translated").after.ravel(), rg.fixed.to_words(d.q).ravel()):
            raise AssertionError("the wave has not moved")
    program.uncall()
    return 0


def _echo(n: int, steps: int) -> float:
    """The wave in the interior that the layer has returned, beside that of a rigid wall: norms, in a run of that many steps."""
    d, inside = data(n, steps), slice(n // 6, n - n // 6)
    far = 3 * n
    at = np.s_[n : 2 * n, n : 2 * n]
    q = np.zeros((far, far))
    q[at] = d.q
    free = example.reference(q, np.zeros_like(q), np.full_like(q, example.COURANT), steps)[0][at]
    echoes = [example.reference(d.q, d.p, c, steps)[0] - free for c in (d.c, np.full_like(d.c, example.COURANT))]
    soft, hard = (float(np.linalg.norm(echo[inside, inside])) for echo in echoes)
    return soft / hard


def _goldens() -> Sequence[Golden]:
    return [
        Golden("words that differ after 1000 steps out and back", 0, 0, lambda: differing(32, 1000)),
        Golden("echo of the layer after 300 steps, over that of a rigid wall", 0, 0.25, lambda: _echo(128, 300)),
    ]


def _counted() -> tuple[rg.Reversible, tuple[object, ...]]:
    d = data(16, 10)
    return example.propagate, (d.q, d.p, d.c, d.steps)


WORKLOAD = Workload(
    "wave",
    "acoustic wave",
    _goldens,
    _counted,
    lambda sizes: [_problem(*SIZES[not sizes.quick])],
    "steps",
    lambda sizes: [with_extent(_problem(64, n), n) for n in ((10, 100) if sizes.quick else (10, 100, 1000, 10_000))],
)
