"""Loops with checkpoints: values, gradients beside loops that keep all states, counts of steps, ways back, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, CompileError, ProgramTrap, fixed, reversible
from retrograd.derivatives import _requests
from retrograd.library import bennett_any_calls, treeverse_steps

P = 2.0**-6


@reversible(stack=1 << 12)
def grown(value: fixed, x0: Array[fixed, 2], p: fixed, n: int):
    """The loop with 10 checkpoints."""
    with rg.routine() as r:
        x = rg.copy(x0)
        with rg.checkpoints(states=10):
            for _ in range(n):
                x = x + p * x * (1 - x)
    value += rg.sum(x * x)
    ~r


@reversible
def grown_plainly(value: fixed, x0: Array[fixed, 2], p: fixed, n: int):
    """The same with an array of all states."""
    with rg.routine() as r:
        h = rg.zeros(n + 1, 2)
        h[0] += x0
        for i in range(n):
            h[i + 1] += h[i] + p * h[i] * (1 - h[i])
    value += rg.sum(h[n] * h[n])
    ~r


@reversible
def pendulum(value: fixed, q0: fixed, v0: fixed, dt: fixed, n: int, kicks: Array[fixed, 40]):
    """Numbers as states, the index of the loop, a number overwritten before it is read, and an int beside them."""
    with rg.routine() as r:
        q, v = q0 + 0, v0 + 0
        count = 3
        with rg.checkpoints(words=18):
            for i in range(2, n):
                slope = rg.sin(q)
                v = v - slope * dt + kicks[i] * dt
                q = q + v * dt
                count = count + 2
    value += q * q + v * int(count)
    ~r


@reversible
def pendulum_plainly(value: fixed, q0: fixed, v0: fixed, dt: fixed, n: int, kicks: Array[fixed, 40]):
    with rg.routine() as r:
        q, v = rg.zeros(41), rg.zeros(41)
        q[2] += q0
        v[2] += v0
        for i in range(2, n):
            v[i + 1] += v[i] - rg.sin(q[i]) * dt + kicks[i] * dt
            q[i + 1] += q[i] + v[i + 1] * dt
        count = 3 + 2 * (n - 2)
    value += q[n] * q[n] + v[n] * count
    ~r


def same(a: Any, b: Any, within: float) -> None:
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=0, atol=within)


@pytest.mark.parametrize(("form", "place"), [("Q32.32", 2.0**-32), ("Q16.16", 2.0**-16)])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 9, 30])
def test_values_and_gradients_are_those_of_the_loop_that_keeps_its_states(form, place, steps):
    args = (0.0, [0.25, 0.5], P, steps)
    run = rg.run(grown, *args, format=form)
    assert run.values.value == rg.run(grown_plainly, *args, format=form).values.value
    assert run.erased_bits == 0
    assert rg.run(~grown, *run.values, format=form).values.value == 0
    got, expected = (rg.grad(f, ("x0", "p"), format=form)(*args) for f in (grown, grown_plainly))
    # A cotangent is rounded once more for each step.
    same(got, expected, 4 * (steps + 1) * place)


@pytest.mark.parametrize("steps", [2, 3, 8, 40])
def test_several_states_an_index_and_an_int(steps):
    args = (0.0, 0.5, 0.25, 2.0**-4, steps, np.linspace(-1, 1, 40))
    by = ("q0", "v0", "dt", "kicks")
    run = rg.run(pendulum, *args)
    assert run.values.value == rg.run(pendulum_plainly, *args).values.value
    assert (~pendulum)(*run.values).value == 0
    same(rg.grad(pendulum, by)(*args), rg.grad(pendulum_plainly, by)(*args), 2.0**-26)


@reversible
def twice(value: fixed, p: fixed, n: int):
    """The loop in a function that is called twice, within a routine: each call has cotangents of its own."""
    with rg.routine() as r:
        t = fixed(0)
        grown(t, [0.25, 0.5], p, n)
        grown(t, [0.25, 0.5], p / 2, n)
    value += t * t
    ~r


@reversible
def twice_plainly(value: fixed, p: fixed, n: int):
    with rg.routine() as r:
        t = fixed(0)
        grown_plainly(t, [0.25, 0.5], p, n)
        grown_plainly(t, [0.25, 0.5], p / 2, n)
    value += t * t
    ~r


def test_within_other_functions():
    args = (0.0, P, 20)
    run = rg.run(twice, *args)
    assert run.values.value == twice_plainly(*args).value
    assert (~twice)(*run.values).value == 0
    assert rg.grad(twice, "p")(*args) == pytest.approx(rg.grad(twice_plainly, "p")(*args), abs=2.0**-26)


def test_all_derivatives():
    args, by = (0.0, [0.25, 0.5], P, 9), ("x0", "p")
    tangents = (None, [1.0, -1.0], 0.5, None)
    got, expected = (rg.jvp(f, args, tangents)[1].value for f in (grown, grown_plainly))
    assert got == pytest.approx(expected, abs=2.0**-28)
    got, expected = (rg.hessian(f, "p")(*args) for f in (grown, grown_plainly))
    assert got == pytest.approx(expected, abs=2.0**-20)
    rows = np.array([P, 2 * P, 0.25])
    batch = rg.vmap(rg.grad(grown, by), in_axes=(None, None, 0, None))(0.0, [0.25, 0.5], rows, 9)
    for k, p in enumerate(rows):
        x_bar, p_bar = rg.grad(grown, by)(0.0, [0.25, 0.5], p, 9)
        assert batch[0][k].tolist() == x_bar.tolist()
        assert batch[1][k] == p_bar


@reversible
def pointed(value: fixed[24], x0: Array[fixed[40], 2], p: fixed[44], n: int):
    with rg.routine() as r:
        x = rg.copy(x0)
        with rg.checkpoints(states=6):
            for _ in range(n):
                x = x + p * x * (1 - x)
    value += rg.sum(x * x)
    ~r


def test_binary_points():
    args = (0.0, [0.25, 0.5], P, 20)
    assert pointed(*args).value == pytest.approx(grown_plainly(*args).value, abs=2.0**-23)
    same(rg.grad(pointed, ("x0", "p"))(*args), rg.grad(grown_plainly, ("x0", "p"))(*args), 2.0**-20)


@reversible
def mixed(value: fixed, u0: Array[fixed, 8], k: fixed, n: int):
    """A body with an array of its own, a loop, a branch, and elements that change in place."""
    with rg.routine() as r:
        u = rg.copy(u0)
        with rg.checkpoints(states=8):
            for _ in range(n):
                lap = rg.zeros(8)
                for j in range(1, 7):
                    lap[j] += u[j - 1] - 2 * u[j] + u[j + 1]
                u = u + k * lap
                if lap[3] > 0.01:
                    u[0] += k
                u[7] -= 0.125
    value += rg.sum(u * u)
    ~r


def mixed_in_floats(u: Any, k: float, n: int) -> float:
    u = np.array(u)
    for _ in range(n):
        lap = np.zeros(8)
        lap[1:7] = u[:6] - 2 * u[1:7] + u[2:]
        u = u + k * lap
        u[0] += k * (lap[3] > 0.01)
        u[7] -= 0.125
    return float(u @ u)


def test_a_body_with_statements_of_all_kinds():
    u, k, n, h = np.linspace(0, 1, 8) ** 2, 0.1, 20, 2.0**-10
    assert mixed(0.0, u, k, n).value == pytest.approx(mixed_in_floats(u, k, n), abs=1e-6)
    u_bar, k_bar = rg.grad(mixed, ("u0", "k"))(0.0, u, k, n)
    assert k_bar == pytest.approx((mixed_in_floats(u, k + h, n) - mixed_in_floats(u, k - h, n)) / 2 / h, rel=1e-4)
    for i in range(8):
        e = h * np.eye(8)[i]
        assert u_bar[i] == pytest.approx(
            (mixed_in_floats(u + e, k, n) - mixed_in_floats(u - e, k, n)) / 2 / h, abs=1e-4
        )


@reversible
def fibonacci(out: int, n: int):
    """States that have no cotangent, overwritten at once; they begin as constants."""
    with rg.routine() as r:
        a, b = 0, 1
        with rg.checkpoints(states=6):
            for _ in range(n):
                a, b = b, a + b
    out += a
    ~r


def test_states_without_cotangents():
    assert [fibonacci(0, n).out for n in range(12)] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]


# -----------------------------------------------------------------------------
# Time and memory.


def in_steps(states: int) -> Any:
    @reversible
    def waves(value: fixed, x0: fixed, n: int):
        with rg.routine() as r:
            x = x0 + 0
            with rg.checkpoints(states=states):
                for _ in range(n):
                    x = x + rg.sin(x) / 64
        value += x
        ~r

    return waves


def sines(machine: Any) -> int:
    return sum(n for name, n in machine.counts().items() if name.startswith("fsin"))


@pytest.fixture
def machines(monkeypatch):
    """The machines of gradients that have run."""
    found: list[Any] = []
    run = _requests.finished

    def watched(*args: Any, **options: Any) -> Any:
        found.append(run(*args, **options))
        return found[-1]

    monkeypatch.setattr(_requests, "finished", watched)
    return found


@pytest.mark.parametrize("steps_states", [(1, 3), (2, 3), (8, 3), (64, 10), (1000, 10), (1000, 20)])
def test_steps_are_those_of_the_formulas(steps_states, machines):
    """The value: the fewest calls of Bennett's method. The gradient: N + t(N, s) steps, N gradients of one, and 1."""
    n, states = steps_states
    waves = in_steps(states)
    # A step is computed and uncomputed, and so is the loop.
    assert sines(rg.run(waves, 0.0, 0.5, n).machine) == 4 * bennett_any_calls(n, states)
    rg.grad(waves, "x0")(0.0, 0.5, n)
    assert sines(machines[-1]) == n + treeverse_steps(n, states) + n + 1


def test_a_gradient_needs_less_states_than_a_value():
    """The value takes 2^s steps with s states, since it runs back; the gradient takes any number."""
    waves = in_steps(3)
    with pytest.raises(ProgramTrap, match=r"RG0804.*`steps` is 9"):
        waves(0.0, 0.5, 9)
    assert rg.grad(waves, "x0")(0.0, 0.5, 100) == pytest.approx(
        rg.grad(in_steps(100), "x0")(0.0, 0.5, 100), abs=2.0**-40
    )


def test_memory_is_that_of_the_states():
    """A further state is a row of the value and a row of the gradient, and gradients of steps have shadows of both."""

    def words(states: int) -> int:
        return int(in_steps(states).program(0.0, 0.5, 1).memory)

    assert words(50) - words(10) == 4 * 40


def test_no_gradient_within_a_program():
    """A gradient that a program runs can be undone, and the one of the loop erases states; no trap comes first."""
    slope = rg.reversible_gradient(grown, "p")

    @reversible
    def within(value: fixed, p: fixed):
        with rg.routine() as r:
            g, unused = fixed(0), fixed(0)
            slope(unused, [0.25, 0.5], p, 3, g)
        value += g
        ~r

    for run in (within, lambda *args: rg.grad(rg.grad(grown, "p"), "p")(0.0, [0.25, 0.5], P, 3)):
        with pytest.raises(CompileError, match="RG0733"):
            run(0.0, P)
