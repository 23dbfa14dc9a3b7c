"""Chains of steps whose gradient needs the states of all steps: kept on a tape, computed again from checkpoints, or
recovered by running backward.

oscillator   a step with an inverse in place: its gradient runs backward, and stores nothing
logistic     a step without an inverse: its states are kept, or computed again by Bennett's scheme

retrograd energy examples/chains.py:oscillator 0.0 0.5 0.0 64 --tech cmos45_caches

The page [when a reversible machine wins](../docs/when-a-reversible-machine-wins.md) compares these ways.
"""

from __future__ import annotations

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import bennett

#: the time of a step of the oscillator
STEP = 1 / 64


@reversible
def oscillator(loss: fixed, x: fixed, v: fixed, steps: int) -> None:
    """`steps` of v −= (x + x³) dt, x += v dt, in place; then loss += x². Inverse: back in time, bit for bit."""
    for _ in range(steps):
        v -= STEP * (x + x * x * x)
        x += STEP * v
    loss += x * x


@reversible
def logistic(y: fixed, x: fixed) -> None:
    """y += 3.5·x(1 − x)."""
    y += 3.5 * x - 3.5 * x * x


@reversible
def last_state(loss: fixed, states: Array[fixed, "n"]) -> None:
    """states[i + 1] += 3.5·states[i](1 − states[i]), all of which are kept; then loss += the last."""
    for i in range(len(states) - 1):
        logistic(states[i + 1], states[i])
    loss += states[len(states) - 1]


@reversible
def last_state_by_bennett(loss: fixed, k: rg.static, states: Array[fixed, ...]) -> None:
    """The same for k² steps, with 2(k − 1) + 2 states (retrograd.library.bennett)."""
    bennett(logistic, k, 2, states)
    loss += states[1]
