"""Simulations, out and back to the bit, in memory that does not grow with the number of steps: planets, then waves.

The planets move by drift, kick and drift.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from retrograd.benchmarks import ours, references
from retrograd.benchmarks.workload import Bodies, Golden, Problem, Reals, Sizes, Task, Wave, Workload, with_extent
from retrograd.examples import leapfrog as planets_example
from retrograd.examples import wave as wave_example

import retrograd as rg

EARTH = 3


def planets_problem(steps: int, gradient: bool = True) -> Problem:
    """`steps` steps; and the gradient of the Earth's first coordinate after them by the initial velocities."""
    q, v, gm = planets_example.solar_system()
    h = 1 / planets_example.RATE
    planets_data = Bodies(q, v, gm, steps, h)
    end, _ = references.drift_kick_drift(q, v, gm, steps, h)
    axes = ours.only("q", planets_example.leapfrog) | {"rate": None}
    call = ours.Call(planets_example.leapfrog, (q[None], v, gm, steps), axes)
    tasks = [Task("value", planets_data, end, 1e-8 * steps, lambda: ours.value(call, "q"), absolute=True)]
    if gradient:
        _, (_, by_v, _) = references.gradients(q, v, gm, steps, h, EARTH, 0)
        tasks.append(
            Task(
                "gradient", planets_data, by_v, 3e-8 * max(30, steps),
                lambda: ours.rows(call, ["v"], "q", [3 * EARTH]),
            )
        )  # fmt: skip
    return Problem(f"{steps} steps of a hundredth of a year, nine bodies", steps, tuple(tasks), steps)


def _planets_goldens() -> Sequence[Golden]:
    """Out and back, to the bit; and the energy along the way."""
    steps = 1000
    q, v, gm = planets_example.solar_system()

    def returned() -> float:
        out = rg.run(planets_example.leapfrog, q, v, gm, steps)
        out.machine.run_back()
        begun = rg.run(planets_example.leapfrog, q, v, gm, 0).words
        memory = list(out.machine.memory)
        differing = 0
        for a in out.compiled.arguments[:3]:
            differing += sum(x != y for x, y in zip(memory[a.address :], begun[a.name], strict=False))
        return float(differing)

    def kept() -> float:
        after = rg.run(planets_example.leapfrog, q, v, gm, steps).values
        return float(planets_example.energy(after.q, after.v, gm) / planets_example.energy(q, v, gm))

    def gradient() -> float:
        """The relative error of ∂(the Earth's first coordinate after 30 steps)/∂(initial velocities)."""
        _, (_, by_v, _) = references.gradients(q, v, gm, 30, 1 / planets_example.RATE, EARTH, 0)
        seed = np.zeros((len(gm), 3))
        seed[EARTH, 0] = 1
        _, back = rg.vjp(planets_example.leapfrog, q, v, gm, 30)
        found: Reals = back({"q": seed}).v
        return float(np.abs(found - by_v).max() / np.abs(by_v).max())

    return [
        Golden(f"words that differ after {steps} steps out and back", 0, 0, returned),
        Golden(f"energy after {steps} steps, of that before", 1, 2e-5, kept),
        Golden("error of a gradient through 30 steps", 0, 1e-6, gradient),
    ]


def _planets_curve(sizes: Sizes) -> Sequence[Problem]:
    return [
        with_extent(planets_problem(n, gradient=n <= 300), n)
        for n in ((1, 30) if sizes.quick else (1, 10, 100, 1000, 10_000))
    ]


PLANETS = Workload(
    "leapfrog",
    "leapfrog, planets",
    _planets_goldens,
    lambda: (planets_example.leapfrog, (*planets_example.solar_system(), 10)),
    lambda sizes: [planets_problem(100 if sizes.quick else 300)],
    "steps",
    _planets_curve,
)


# -----------------------------------------------------------------------------
# Acoustic waves in two dimensions, and the gradient of a misfit by the medium, in memory that does not grow with the number of steps.

#: cells on a side, and steps: quick and full
SIZES = ((64, 100), (256, 2500))


def wave_data(n: int, steps: int) -> Wave:
    """A pulse in a homogeneous medium, as words hold it; the misfit is the distance of a line of cells from zero."""
    q, c = (rg.fixed.to_reals(rg.fixed.to_words(a)) for a in (wave_example.pulse(n), wave_example.medium(n)))
    return Wave(np.asarray(q), np.zeros((n, n)), np.asarray(c), np.zeros(n), n // 2, steps)


def wave_gradient(n: int, steps: int) -> ours.Ours:
    """Our program for ∂misfit/∂c."""
    d = wave_data(n, steps)
    axes = ours.only("out", wave_example.misfit) | {"line": None}
    call = ours.Call(wave_example.misfit, (np.zeros(1), d.q, d.p, d.c, d.seen, d.line, d.steps), axes)
    return ours.gradient(call, ["c"])


def wave_problem(n: int, steps: int) -> Problem:
    d = wave_data(n, steps)

    @functools.cache
    def by_c() -> Reals:
        return references.misfit(d.q, d.p, d.c, steps, d.misfit)[1]

    forth = ours.Call(wave_example.propagate, (d.q[None], d.p, d.c, steps), ours.only("q", wave_example.propagate))
    return Problem(
        f"{n} × {n} cells, {steps} steps; each is a cell and step", n * n * steps,
        (
            Task("value", d, lambda: wave_example.reference(d.q, d.p, d.c, steps)[0], 5e-9 * (10 + steps**0.5), lambda: ours.value(forth, "q"), absolute=True),
            Task("gradient", d, by_c, 3e-6, lambda: wave_gradient(n, steps)),
        ),
        steps,
    )  # fmt: skip


def differing(n: int, steps: int) -> int:
    """Words of the fields that differ after running out and back: 0, or AssertionError. The fields do move."""
    d = wave_data(n, steps)
    axes = ours.only("q", wave_example.propagate) | {"p": 0}
    for count in (1, steps):
        program = ours.value(ours.Call(wave_example.propagate, (d.q[None], d.p[None], d.c, count), axes), "q")
        if count == 1 and np.array_equal(program.run("translated").after.ravel(), rg.fixed.to_words(d.q).ravel()):
            raise AssertionError("the wave has not moved")
    program.uncall()
    return 0


def _echo(n: int, steps: int) -> float:
    """The wave in the interior that the layer has returned, beside that of a rigid wall: norms, in a run of that many steps."""
    d, inside = wave_data(n, steps), slice(n // 6, n - n // 6)
    far = 3 * n
    at = np.s_[n : 2 * n, n : 2 * n]
    q = np.zeros((far, far))
    q[at] = d.q
    free = wave_example.reference(q, np.zeros_like(q), np.full_like(q, wave_example.COURANT), steps)[0][at]
    echoes = [
        wave_example.reference(d.q, d.p, c, steps)[0] - free for c in (d.c, np.full_like(d.c, wave_example.COURANT))
    ]
    soft, hard = (float(np.linalg.norm(echo[inside, inside])) for echo in echoes)
    return soft / hard


def _wave_goldens() -> Sequence[Golden]:
    return [
        Golden("words that differ after 1000 steps out and back", 0, 0, lambda: differing(32, 1000)),
        Golden("echo of the layer after 300 steps, over that of a rigid wall", 0, 0.25, lambda: _echo(128, 300)),
    ]


def _wave_counted() -> tuple[rg.Reversible, tuple[object, ...]]:
    d = wave_data(16, 10)
    return wave_example.propagate, (d.q, d.p, d.c, d.steps)


WAVE = Workload(
    "wave",
    "acoustic wave",
    _wave_goldens,
    _wave_counted,
    lambda sizes: [wave_problem(*SIZES[not sizes.quick])],
    "steps",
    lambda sizes: [
        with_extent(wave_problem(64, n), n) for n in ((10, 100) if sizes.quick else (10, 100, 1000, 10_000))
    ],
)
