"""Rows about steps, states and round-off: Bennett's scheme beside checkpoints, leapfrog out and back, FFT."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from retrograd.benchmarks import ours
from retrograd.benchmarks.measure import timed
from retrograd.benchmarks.references import simulations
from retrograd.benchmarks.workloads import bennett
from retrograd.examples import leapfrog

import retrograd as rg
from retrograd import library

Cells = dict[str, float]


def checkpointed_steps(length: int, states: int) -> int:
    """The least executions of steps for a reverse sweep over a chain with room for `states` states.

    r·l − C(c + r, r − 1) with the least r for which l ≤ C(c + r, c). c = states − 1: the input is a checkpoint, and one state runs.
    Source: A. Griewank, A. Walther, Algorithm 799: revolve, ACM Trans. Math. Softw. 26 (2000), 19–45.
    """
    kept, sweeps, reach = states - 1, 0, 1
    while reach < length:
        sweeps += 1
        reach = reach * (kept + sweeps) // sweeps
    over = 1
    for i in range(1, sweeps):
        over = over * (kept + 1 + i) // i
    return sweeps * length - over if sweeps else 0


def bennett_beside_checkpoints(k: int, levels: int) -> Callable[[], Cells]:
    """The calls and states of Bennett's scheme as run, and the steps of checkpointing with as many states."""

    def row() -> Cells:
        states = library.bennett_states(k, levels)
        return {
            "steps of the chain": float(library.bennett_steps(k, levels)),
            "states": float(states),
            "calls, Bennett": bennett.calls(k, levels),
            "steps, checkpoints": float(checkpointed_steps(library.bennett_steps(k, levels), states)),
        }

    return row


def out_and_back(steps: int) -> Callable[[], Cells]:
    """The planets `steps` steps out and back: the words that differ, and the greatest difference of a coordinate in float64."""

    def row() -> Cells:
        q, v, gm = leapfrog.solar_system()
        begun = rg.run(leapfrog.leapfrog, q, v, gm, 0).words
        out = rg.run(leapfrog.leapfrog, q, v, gm, steps)
        energy = abs(leapfrog.energy(out.values.q, out.values.v, gm) / leapfrog.energy(q, v, gm) - 1)
        back = rg.run(~leapfrog.leapfrog, *[out.values[i] for i in range(3)], steps).words
        differing = sum(x != y for name in ("q", "v") for x, y in zip(back[name], begun[name], strict=True))
        natural = q, v / leapfrog.LARGER, gm / leapfrog.LARGER
        there = simulations.drift_kick_drift(*natural, steps, 1 / leapfrog.RATE)
        home, _ = simulations.drift_kick_drift(there[0], there[1], natural[2], steps, -1 / leapfrog.RATE)
        return {
            "words that differ": float(differing),
            "change of energy": float(energy),
            "difference, float64": float(np.abs(home - q).max()),
            "difference from float64": float(np.abs(out.values.q - there[0]).max()),
        }

    return row


def fourier(n: int, count: int = 1000) -> Callable[[], Cells]:
    """Seconds of a Fourier transform in place, of its inverse, and of NumPy's, each of a batch."""

    def row() -> Cells:
        generator = np.random.default_rng(n)
        x = generator.normal(size=(count, n)) + 1j * generator.normal(size=(count, n))
        program = ours.value(ours.Call(library.fft, (x,)), "x")
        found = program.read(program.run("translated")).reshape(count, n, 2)
        error = float(np.abs(found @ [1, 1j] - np.fft.fft(x, norm="ortho")).max())
        tasks: dict[str, Callable[[], Any]] = {
            "value, Retrograd": lambda: program.run("translated"),
            "uncall, Retrograd": program.uncall(),
            "value, NumPy": lambda: np.fft.fft(x, norm="ortho"),
        }
        spent = timed(tasks, 5, 2.0, clock=time.process_time)
        return {name: s.minimum / count for name, s in spent.items()} | {"error": error}

    return row
