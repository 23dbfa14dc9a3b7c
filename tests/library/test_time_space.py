"""Bennett's scheme: what it computes, how often it calls, how many states exist."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import (
    bennett,
    bennett_any,
    bennett_any_calls,
    bennett_calls,
    bennett_states,
    bennett_steps,
    lax_wendroff_step,
)
from retrograd.library.time_space import pebble_split

HEAT = 0.25


@reversible
def logistic(y: fixed, x: fixed):
    """y += 3.5 x (1 − x), which forgets the sign of x − ½."""
    y += 3.5 * (x * (1 - x))


@reversible
def advect(y: Array[fixed, "n"], x: Array[fixed, "n"]):
    lax_wendroff_step(y, x, HEAT)


@pytest.mark.parametrize(
    ("k", "n", "calls", "states"), [(4, 4, 2401, 14), (2, 10, 59049, 12), (3, 0, 1, 2), (1, 5, 1, 2)]
)
def test_counts(k, n, calls, states):
    assert bennett_calls(k, n) == calls
    assert bennett_states(k, n) == states
    assert bennett_steps(k, n) == k**n


def products(k, n):
    """How often the step's two products are executed, forward and backward."""
    states = np.zeros(bennett_states(k, n))
    states[0] = 0.3
    result = rg.run(bennett, logistic, k, n, states)
    counts = result.machine.counts()
    return result, sum(n for name, n in counts.items() if name.startswith("fmul"))


@pytest.mark.parametrize(("k", "n"), [(4, 4), pytest.param(2, 10, marks=pytest.mark.long)])
def test_golden_calls(k, n):
    result, executed = products(k, n)
    _, once = products(1, 0)
    assert executed == bennett_calls(k, n) * once
    assert len(result.values.states) == bennett_states(k, n)
    assert not result.values.states[2:].any()


@pytest.mark.parametrize(("k", "n"), [(1, 3), (2, 3), (3, 2), (5, 1), (7, 0)])
def test_the_chain_is_the_same_word_for_word(roundtrip, k, n):
    states = np.zeros(bennett_states(k, n))
    states[0] = 0.3
    found = roundtrip(bennett, logistic, k, n, states).states
    x = states[0]
    for _ in range(bennett_steps(k, n)):
        x = logistic(0.0, x).y
    assert found[1] == x
    assert found[0] == roundtrip(logistic, 0.0, 0.3).x
    assert not found[2:].any()


def test_states_may_be_arrays(roundtrip):
    states = np.zeros((bennett_states(2, 2), 6))
    states[0] = [0, 1, 2, 1, 0, 0]
    found = roundtrip(bennett, advect, 2, 2, states).states
    x = states[0]
    for _ in range(4):
        x = advect(np.zeros(6), x).y
    assert found[1].tolist() == x.tolist()


def test_the_number_of_states_is_checked():
    with pytest.raises(rg.CompileError, match="RG0804"):
        bennett(logistic, 2, 2, np.zeros(3))


# -----------------------------------------------------------------------------
# Any number of steps.


@cache
def fewest(steps: int, states: int) -> int:
    """The best of all recursive schedules, by trying every split."""
    if steps == 1:
        return 1
    splits = [m for m in range(1, steps) if m <= 2 ** (states - 1) and steps - m <= 2 ** (states - 1)]
    return min(2 * fewest(m, states - 1) + fewest(steps - m, states - 1) for m in splits)


def taken(steps: int, states: int) -> int:
    """The calls by the splits of the program."""
    if steps == 1:
        return 1
    m = int(pebble_split(0, steps, states).m)
    return 2 * taken(m, states - 1) + taken(steps - m, states - 1)


def test_no_recursive_schedule_takes_fewer_calls():
    for states in range(8):
        for steps in range(1, min(2**states, 60) + 1):
            assert bennett_any_calls(steps, states) == fewest(steps, states)
    assert bennett_any_calls(2**10, 10) == bennett_calls(2, 10)


@pytest.mark.parametrize("states", [1, 3, 4, 6])
def test_the_splits_attain_the_fewest_calls(states):
    for steps in range(2, min(2**states, 20) + 1):
        assert taken(steps, states) == bennett_any_calls(steps, states)


def products_of(start: np.ndarray, steps: int) -> int:
    counts = rg.run(bennett_any, logistic, start, steps).machine.counts()
    return sum(n for name, n in counts.items() if name.startswith("fmul"))


@pytest.mark.parametrize(("steps", "states"), [(1, 0), (2, 1), (5, 3), (8, 3), (11, 10)])
def test_any_number_of_steps(roundtrip, steps, states):
    start = np.zeros(states + 2)
    start[0] = 0.3
    found = roundtrip(bennett_any, logistic, start, steps).states
    x = start[0]
    for _ in range(steps):
        x = logistic(0.0, x).y
    assert found[1] == x
    assert not found[2:].any()
    assert products_of(start, steps) == products_of(start, 1) * bennett_any_calls(steps, states)


def test_the_gradient_of_any_number_of_steps():
    @reversible
    def orbit(states: Array[fixed, "n"], steps: int):
        bennett_any(logistic, states, steps)

    by_states = rg.grad(orbit, "states", "states[1]")([0.3, 0.0, 0.0, 0.0, 0.0], 5)
    x, slope = 0.3, 1.0
    for _ in range(5):
        x, slope = 3.5 * x * (1 - x), slope * 3.5 * (1 - 2 * x)
    assert by_states[0] == pytest.approx(slope, abs=1e-6)


def test_too_few_states():
    with pytest.raises(ValueError, match="at most 2"):
        bennett_any_calls(5, 2)
    for steps in (0, 5):
        with pytest.raises(rg.ProgramTrap, match="RG0804"):
            bennett_any(logistic, [0.3, 0.0, 0.0, 0.0], steps)
