"""The planets by drift, kick and drift: out and back to the bit, in memory that does not grow with the number of steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from retrograd.benchmarks import ours
from retrograd.benchmarks.data import Bodies, Reals
from retrograd.benchmarks.references import simulations
from retrograd.benchmarks.workload import Golden, Problem, Sizes, Task, Workload, with_extent
from retrograd.examples import leapfrog as example

import retrograd as rg

EARTH = 3


def _problem(steps: int, gradient: bool = True) -> Problem:
    """`steps` steps; and the gradient of the Earth's first coordinate after them by the initial velocities."""
    q, v, gm = example.solar_system()
    natural = q, v / example.LARGER, gm / example.LARGER
    h = 1 / example.RATE
    data = Bodies(*natural, steps, h)
    end, _ = simulations.drift_kick_drift(*natural, steps, h)
    axes = ours.only("q", example.leapfrog) | {"rate": None}
    call = ours.Call(example.leapfrog, (q[None], v, gm, steps), axes)
    tasks = [Task("value", data, end, 1e-8 * steps, lambda: ours.value(call, "q"), absolute=True)]
    if gradient:
        _, (_, by_v, _) = simulations.gradients(*natural, steps, h, EARTH, 0)
        tasks.append(
            Task(
                "gradient", data, by_v, 3e-8 * max(30, steps),
                lambda: ours.rows(call, ["v"], "q", [3 * EARTH], unit=example.LARGER),
            )
        )  # fmt: skip
    return Problem(f"{steps} steps of a hundredth of a year, nine bodies", steps, tuple(tasks), steps)


def _goldens() -> Sequence[Golden]:
    """Out and back, to the bit; and the energy along the way."""
    steps = 1000
    q, v, gm = example.solar_system()

    def returned() -> float:
        out = rg.run(example.leapfrog, q, v, gm, steps)
        out.machine.run_back()
        begun = rg.run(example.leapfrog, q, v, gm, 0).words
        memory = list(out.machine.memory)
        differing = 0
        for a in out.compiled.arguments[:3]:
            differing += sum(x != y for x, y in zip(memory[a.address :], begun[a.name], strict=False))
        return float(differing)

    def kept() -> float:
        after = rg.run(example.leapfrog, q, v, gm, steps).values
        return float(example.energy(after.q, after.v, gm) / example.energy(q, v, gm))

    def gradient() -> float:
        """The relative error of ∂(the Earth's first coordinate after 30 steps)/∂(initial velocities)."""
        natural = q, v / example.LARGER, gm / example.LARGER
        _, (_, by_v, _) = simulations.gradients(*natural, 30, 1 / example.RATE, EARTH, 0)
        seed = np.zeros((len(gm), 3))
        seed[EARTH, 0] = 1
        _, back = rg.vjp(example.leapfrog, q, v, gm, 30)
        found: Reals = example.LARGER * back({"q": seed}).v
        return float(np.abs(found - by_v).max() / np.abs(by_v).max())

    return [
        Golden(f"words that differ after {steps} steps out and back", 0, 0, returned),
        Golden(f"energy after {steps} steps, of that before", 1, 2e-5, kept),
        Golden("error of a gradient through 30 steps", 0, 1e-6, gradient),
    ]


def _curve(sizes: Sizes) -> Sequence[Problem]:
    return [
        with_extent(_problem(n, gradient=n <= 300), n) for n in ((1, 30) if sizes.quick else (1, 10, 100, 1000, 10_000))
    ]


WORKLOAD = Workload(
    "leapfrog",
    "leapfrog, planets",
    _goldens,
    lambda: (example.leapfrog, (*example.solar_system(), 10)),
    lambda sizes: [_problem(100 if sizes.quick else 300)],
    "steps",
    _curve,
)
