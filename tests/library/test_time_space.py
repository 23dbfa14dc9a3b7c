"""Bennett's scheme: what it computes, how often it calls, how many states exist."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import bennett, bennett_calls, bennett_states, bennett_steps, lax_wendroff_step

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
