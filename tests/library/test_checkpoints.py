"""Checkpoints: how many steps are taken, against the best of all schedules; gradients of long chains; memory."""

from __future__ import annotations

from functools import cache
from math import comb
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import lax_wendroff_step, online, revolve, treeverse, treeverse_steps
from retrograd.library.time_space import split


@reversible
def grow(y: Array[fixed, "n"], x: Array[fixed, "n"], p: fixed):
    """Euler's step for logistic growth, which has no inverse in place."""
    y += x + p * x * (1 - x)


@reversible
def advect(y: Array[fixed, "n"], x: Array[fixed, "n"], courant: fixed):
    lax_wendroff_step(y, x, courant)


@reversible
def swing(y: Array[fixed, 2], x: Array[fixed, 2], p: Array[fixed, 2]):
    """A step of leapfrog for q″ = −p₀ sin q, dt = p₁: a step that has an inverse."""
    y += x
    kick_and_drift(y, p)


@reversible
def kick_and_drift(x: Array[fixed, 2], p: Array[fixed, 2]):
    x[0] += x[1] * p[1] / 2
    x[1] -= p[0] * rg.sin(x[0]) * p[1]
    x[0] += x[1] * p[1] / 2


@reversible
def loss(value: fixed, x: Array[fixed, "n"]):
    value += rg.sum(x * x)


def grown(x: float, p: float, steps: int) -> tuple[float, float, float]:
    """The last state, and its derivatives by x and p, in float64."""
    by_x, by_p = 1.0, 0.0
    for _ in range(steps):
        slope = 1 + p * (1 - 2 * x)
        by_x, by_p, x = by_x * slope, by_p * slope + x * (1 - x), x + p * x * (1 - x)
    return x, by_x, by_p


# -----------------------------------------------------------------------------
# How many steps are taken.


@cache
def fewest(steps: int, states: int) -> int:
    """The best of all schedules: a state is kept after the first m steps; the later steps come first, then these."""
    if steps == 1:
        return 0
    if states == 1:
        return steps * (steps - 1) // 2
    return min(m + fewest(steps - m, states - 1) + fewest(m, states) for m in range(1, steps))


@pytest.mark.parametrize("states", [1, 2, 3, 5, 9])
def test_no_schedule_takes_fewer_steps(states):
    for steps in range(1, 61):
        assert treeverse_steps(steps, states) == fewest(steps, states)
        taken = [a for a in revolve(steps, states) if a.kind == "advance"]
        assert sum(a.last - a.first for a in taken) == fewest(steps, states)


def test_figures_of_the_formula():
    """Griewank and Walther: β(s, r) steps by at most r repetitions; s = 3 and r = 4 are 35 steps."""
    assert comb(3 + 4, 3) == 35
    assert treeverse_steps(35, 3) == 4 * 35 - comb(3 + 4, 4)
    assert treeverse_steps(1, 1) == 0
    assert treeverse_steps(10**6, 30) == 5623008
    assert treeverse_steps(10**6, 10**6) == 10**6 - 1


def test_the_splits_attain_the_formula_up_to_ten_thousand_steps():
    """cost(N, s) = m + cost(N − m, s − 1) + cost(m, s), by the m of the program, for all N ≤ 10⁴."""
    most = 10**4
    lengths = np.arange(most + 1)
    cost = lengths * (lengths - 1) // 2
    for states in range(2, 31):
        at = np.zeros(most + 1, int)
        at[2:] = rg.run_batch(split, np.zeros(most - 1, int), lengths[2:], states, in_axes=(0, 0, None)).values.m
        assert (at[2:] >= 1).all()
        assert (at[2:] < lengths[2:]).all()
        fewer, cost = cost, np.zeros(most + 1, int)
        for n in range(2, most + 1):
            m = at[n]
            cost[n] = m + fewer[n - m] + cost[m]
        if states in (2, 3, 4, 10, 30):
            assert cost[1:].tolist() == [treeverse_steps(n, states) for n in range(1, most + 1)]


gradient_of_growth = treeverse(grow, loss, keep=64)


def products(steps: int, states: int) -> int:
    """How many products a gradient executes; steps and their gradients alone have products."""
    result = rg.run(gradient_of_growth, 0.0, [0.0], 0.0, [0.25], 2.0**-6, np.zeros((states, 1)), steps)
    return sum(n for name, n in result.machine.counts().items() if name.startswith("fmul"))


def test_the_program_takes_as_many_steps():
    first = products(1, 1)
    step = products(3, 1) - products(3, 3)  # t(3, 1) = 3, t(3, 3) = 2
    turn = products(2, 1) - first - step
    assert step > 0
    for steps, states in ((10, 1), (10, 3), (35, 3), (36, 3), (1000, 3)):
        assert products(steps, states) == first + turn * (steps - 1) + step * treeverse_steps(steps, states)


@pytest.mark.parametrize(("steps", "states"), [(1, 1), (7, 1), (10, 3), (35, 3), (100, 5), (20, 40)])
def test_a_schedule_is_executed_with_its_places(steps, states):
    """Numbers of states stand for states; a turn needs the state before it."""
    current, places, turned = 0, {}, []
    for kind, first, last, place in revolve(steps, states):
        match kind:
            case "advance":
                assert first == current < last
                current = last
            case "store":
                assert first == current
                places[place] = current
            case "restore":
                current = places[place]
                assert first == current
            case "turn":
                assert (first, last) == (current, current + 1)
                turned.append(last)
    assert turned == list(range(steps, 0, -1))
    assert set(places) <= set(range(states))


@pytest.mark.parametrize("states", [1, 2, 3, 5, 8])
def test_a_schedule_without_a_known_end(states):
    """Each step is taken at most r + 1 times, and once until the end is found."""
    for steps in (*range(1, 40), 100):
        current, places, turned, times = 0, {}, [], np.zeros(steps, int)
        for kind, first, last, place in online(states, lambda n, steps=steps: n == steps):
            match kind:
                case "advance":
                    assert first == current < last
                    times[first:last] += 1
                    current = last
                    assert turned or times.max() == 1 or current < steps or steps == 1
                case "store":
                    assert first == current
                    places[place] = current
                case "restore":
                    current = places[place]
                    assert first == current
                case "turn":
                    assert (first, last) == (current, current + 1)
                    turned.append(last)
        assert turned == list(range(steps, 0, -1))
        assert set(places) <= set(range(states))
        repeats = next(r for r in range(steps) if comb(states + r, states) >= steps)
        assert times.max() <= repeats + 1


# -----------------------------------------------------------------------------
# Gradients.


@pytest.mark.parametrize(("steps", "states"), [(1, 1), (2, 1), (6, 1), (1, 3), (2, 3), (35, 3), (36, 3), (30, 40)])
def test_the_gradient_of_an_irreversible_chain(steps, states):
    found = gradient_of_growth(0.5, [2.0], 0.25, [0.3], 2.0**-4, np.zeros((states, 1)), steps)
    x, by_x, by_p = grown(0.3, 2.0**-4, steps)
    assert found.value == pytest.approx(0.5 + x * x, abs=1e-7)
    assert found.x_bar.tolist() == pytest.approx([2 + 2 * x * by_x], abs=1e-7)
    assert found.p_bar == pytest.approx(0.25 + 2 * x * by_p, abs=1e-6)
    assert not found.states.any()
    assert found.x.tolist() == [rg.fixed.to_reals(rg.fixed.to_words(0.3))]


@reversible
def above(b: bool, x: Array[fixed, "n"]):
    b ^= x[0] > 0.75


def test_a_chain_that_ends_at_a_state():
    """As many steps as are needed, found while the program runs; the words are those of a chain of known length."""
    x, steps = 0.3, 0
    while x <= 0.75:
        x, steps = x + x * (1 - x) / 16, steps + 1
    gradient = treeverse(grow, loss, until=above, keep=64)
    found = gradient(0.5, [2.0], 0.25, [0.3], 2.0**-4, np.zeros((3, 1)), 1000)
    known = gradient_of_growth(0.5, [2.0], 0.25, [0.3], 2.0**-4, np.zeros((3, 1)), steps)
    assert [np.array_equal(a, b) for a, b in zip(found[:-1], known[:-1], strict=True)] == [True] * 6
    with pytest.raises(rg.ProgramTrap, match="RG0804"):
        gradient(0.0, [0.0], 0.0, [0.3], 2.0**-4, np.zeros((3, 1)), steps - 1)


@reversible
def kept_chain(value: fixed, history: Array[fixed, "t", "n"], x: Array[fixed, "n"], courant: fixed):
    """All states are kept."""
    history[0] += x
    for i in range(1, len(history)):
        lax_wendroff_step(history[i], history[i - 1], courant)
    loss(value, history[-1])


@pytest.mark.parametrize("states", [2, 12])
def test_the_gradient_is_that_of_a_chain_that_keeps_all_states(states):
    x = np.array([1.0, 2.0, 0.5])
    found = treeverse(advect, loss)(0.0, np.zeros(3), 0.0, x, 0.25, np.zeros((states, 3)), 12)
    value, (by_x, by_courant) = rg.value_and_grad(kept_chain, ("x", "courant"))(0.0, np.zeros((13, 3)), x, 0.25)
    assert found.value == value
    np.testing.assert_allclose(found.x_bar, by_x, atol=1e-8)
    assert found.p_bar == pytest.approx(by_courant, abs=1e-8)


@reversible
def swung(value: fixed, x: Array[fixed, 2], p: Array[fixed, 2], steps: int):
    for _ in range(steps):
        kick_and_drift(x, p)
    loss(value, x)


def test_a_step_with_an_inverse():
    gradient = treeverse(swing, loss)
    found = gradient(0.0, np.zeros(2), np.zeros(2), [1.0, 0.0], [9.81, 2.0**-6], np.zeros((3, 2)), 30)
    by_x, by_p = rg.grad(swung, ("x", "p"))(0.0, [1.0, 0.0], [9.81, 2.0**-6], 30)
    assert found.value == swung(0.0, [1.0, 0.0], [9.81, 2.0**-6], 30).value
    np.testing.assert_allclose(found.x_bar, by_x, atol=1e-6)
    np.testing.assert_allclose(found.p_bar, by_p, atol=1e-6)


@rg.struct
class Rates:
    birth: fixed
    death: fixed


@reversible
def breed(y: Array[fixed, 1], x: Array[fixed, 1], p: Rates):
    y += x + p.birth * x - p.death * x * x


def test_parameters_may_be_a_struct():
    found = treeverse(breed, loss)(0.0, [0.0], Rates(0.0, 0.0), [0.3], Rates(0.0625, 0.0625), np.zeros((3, 1)), 20)
    x, by_x, by_p = grown(0.3, 0.0625, 20)
    assert found.x_bar.tolist() == pytest.approx([2 * x * by_x], abs=1e-6)
    assert found.p_bar.birth + found.p_bar.death == pytest.approx(2 * x * by_p, abs=1e-6)


@pytest.mark.parametrize("engine", ["threaded", "native", "translated", "auto"])
def test_every_engine_has_the_words_of_the_reference_machine(engine):
    args: Any = (0.0, [0.0], 0.0, [0.3], 2.0**-4, np.zeros((3, 1)), 20)
    expected = rg.run(gradient_of_growth, *args, engine="reference")
    found = rg.run(gradient_of_growth, *args, engine=engine)
    assert (found.words, found.steps, found.erased_bits) == (expected.words, expected.steps, expected.erased_bits)


@pytest.mark.long
@pytest.mark.parametrize("chain", ["growth", "leapfrog"])
def test_a_million_steps_with_30_states(chain):
    """In 600 words of memory for growth and 850 for leapfrog, the stack of the recursion included."""
    steps = 10**6
    if chain == "growth":
        f = gradient_of_growth.with_options(stack=400)
        result = rg.run(f, 0.0, [0.0], 0.0, [0.3], 2.0**-20, np.zeros((30, 1)), steps)
        x, by_x, by_p = grown(0.3, 2.0**-20, steps)
        expected, parameter = [2 * x * by_x], 2 * x * by_p
        found = result.values.p_bar
        assert len(result.machine.memory) < 600
    else:
        p = [1.0, 2.0**-14]
        f = treeverse(swing, loss, keep=64).with_options(stack=600)
        result = rg.run(f, 0.0, np.zeros(2), np.zeros(2), [1.0, 0.0], p, np.zeros((30, 2)), steps)
        by_x, by_p = rg.grad(swung, ("x", "p"))(0.0, [1.0, 0.0], p, steps)
        expected, parameter, found = by_x.tolist(), by_p[0], result.values.p_bar[0]
        assert len(result.machine.memory) < 850
    assert result.values.x_bar.tolist() == pytest.approx(expected, abs=1e-4)
    assert found == pytest.approx(parameter, rel=1e-4)


# -----------------------------------------------------------------------------
# What is refused.


@pytest.mark.parametrize(("steps", "states"), [(0, 1), (1, 0), (-3, 2)])
def test_counts_are_positive(steps, states):
    with pytest.raises(ValueError, match="must be positive"):
        treeverse_steps(steps, states)
    with pytest.raises(ValueError, match="must be positive"):
        next(revolve(steps, states))


def test_a_chain_has_a_step():
    with pytest.raises(rg.RetrogradError, match="RG0804"):
        gradient_of_growth(0.0, [0.0], 0.0, [0.3], 0.5, np.zeros((2, 1)), 0)


def test_erased_states_do_not_come_back():
    done = gradient_of_growth(0.0, [0.0], 0.0, [0.3], 0.5, np.zeros((2, 1)), 4)
    with pytest.raises(rg.RetrogradError, match="RG0409"):
        (~gradient_of_growth)(*done)


def test_a_loss_has_two_arguments():
    @reversible
    def none(value: fixed):
        value += 1

    with pytest.raises(rg.NotDifferentiable, match="no argument 1"):
        treeverse(grow, none)
