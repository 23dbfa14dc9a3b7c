"""Bodies and waves against the same schemes in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import (
    kick,
    lax_wendroff,
    lax_wendroff_step,
    leapfrog,
    reversible_heun,
    rk4,
    verlet,
    yoshida4,
)
from retrograd.testing import check_gradient

SUN = 4 * np.pi**2
#: the sun, the earth and Jupiter, in astronomical units, years and G·M
X = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 5.2, 0.1]])
V = np.array([[0.0, 0.0, 0.0], [0.0, np.sqrt(SUN), 0.0], [-np.sqrt(SUN / 5.2), 0.0, 0.0]])
M = np.array([SUN, SUN * 3e-6, SUN * 9.5e-4])


def acceleration(x, m):
    difference = x[None] - x[:, None]
    distance = np.linalg.norm(difference, axis=-1) + np.eye(len(x))
    return (m[None, :, None] * difference / distance[..., None] ** 3).sum(axis=1)


def energy(x, v, m):
    kinetic = 0.5 * (m[:, None] * v**2).sum()
    return kinetic - sum(m[i] * m[j] / np.linalg.norm(x[i] - x[j]) for i in range(len(m)) for j in range(i))


def test_kick(roundtrip):
    np.testing.assert_allclose(roundtrip(kick, V, X, M, 0.01).v, V + 0.01 * acceleration(X, M), atol=1e-8)


def test_leapfrog(roundtrip):
    dt, steps = 0.01, 25
    found = roundtrip(leapfrog, X, V, M, dt, steps)
    x, v = X.copy(), V.copy()
    for _ in range(steps):
        x += v * dt / 2
        v += dt * acceleration(x, M)
        x += v * dt / 2
    np.testing.assert_allclose(found.x, x, atol=1e-6)
    np.testing.assert_allclose(found.v, v, atol=1e-5)


@pytest.mark.long
def test_years_out_and_back(roundtrip):
    found = roundtrip(leapfrog, X, V, M, 0.01, 1000)
    assert energy(found.x, found.v, M) == pytest.approx(energy(X, V, M), rel=1e-4)


@pytest.mark.parametrize("courant", [0.5, -0.8, 1.0])
def test_lax_wendroff(roundtrip, courant):
    u = np.random.default_rng(1).normal(size=8)
    up, down = np.roll(u, -1), np.roll(u, 1)
    expected = u - courant / 2 * (up - down) + courant**2 / 2 * (up - 2 * u + down)
    np.testing.assert_allclose(roundtrip(lax_wendroff_step, np.zeros(8), u, courant).out, expected, atol=1e-8)


def test_a_wave_at_courant_number_one_is_carried_along(roundtrip):
    history = np.zeros((4, 6))
    history[0] = [0, 1, 2, 0.5, 0, 0]
    found = roundtrip(lax_wendroff, history, 1.0).u
    assert found[3].tolist() == np.roll(history[0], 3).tolist()


# -----------------------------------------------------------------------------
# Steppers for equations of the user, against SciPy: a forced pendulum, and a spiral.


@reversible
def pendulum(out: Array[fixed, "n"], t: fixed, x: Array[fixed, "n"]):
    out -= 2 * rg.sin(x)
    out[0] += rg.cos(t) / 2


@reversible
def spiral(out: Array[fixed, 2], t: fixed, y: Array[fixed, 2]):
    out[0] -= y[1] + y[0] / 4
    out[1] += y[0] - y[1] / 4 + t / 8


def exact(f, y, t, dt, steps):
    return solve_ivp(f, (t, t + steps * dt), y, rtol=1e-11, atol=1e-12).y[:, -1]


def swung(t, y):
    return [y[1], -2 * np.sin(y[0]) + np.cos(t) / 2]


def spun(t, y):
    return [-y[1] - y[0] / 4, y[0] - y[1] / 4 + t / 8]


def halving(error, steps: int) -> float:
    """The order of a scheme: log₂ of the errors' quotient for steps of twice the size."""
    return float(np.log2(error(steps) / error(2 * steps)))


@pytest.mark.parametrize(("scheme", "order"), [(verlet, 2), (yoshida4, 4)])
def test_second_order_equations(roundtrip, scheme, order):
    def error(steps: int) -> float:
        found = scheme(pendulum, [1.0], [0.25], 0.5, 2.0 / steps, steps)
        x, v = exact(swung, [1.0, 0.25], 0.5, 2.0 / steps, steps)
        return float(np.hypot(found.x[0] - x, found.v[0] - v))

    roundtrip(scheme, pendulum, [1.0], [0.25], 0.5, 0.125, 5)
    assert halving(error, 16) == pytest.approx(order, abs=0.15)
    assert error(64) < {2: 2e-3, 4: 2e-6}[order]


@pytest.mark.parametrize(("scheme", "order"), [(reversible_heun, 2), (rk4, 4)])
def test_first_order_equations(roundtrip, scheme, order):
    def arguments(steps: int) -> tuple:
        y = np.array([1.0, 0.5])
        states = np.vstack([y, np.zeros((steps, 2))])
        return (spiral, states, 0.5, 2.0 / steps) if scheme is rk4 else (spiral, y, y, 0.5, 2.0 / steps, steps)

    def error(steps: int) -> float:
        found = scheme(*arguments(steps)).y
        return float(
            np.linalg.norm((found[-1] if scheme is rk4 else found) - exact(spun, [1.0, 0.5], 0.5, 2.0 / steps, steps))
        )

    roundtrip(scheme, *arguments(3))
    assert halving(error, 8) == pytest.approx(order, abs=0.2)


@reversible
def swing(loss: fixed, x: Array[fixed, 1], v: Array[fixed, 1], rate: fixed, scheme: rg.static):
    def pull(out, t, x):
        out[0] -= rate * rg.sin(x[0])

    scheme(pull, x, v, 0.0, 0.125, 6)
    loss += x[0] * x[0] + v[0]


@reversible
def spin(loss: fixed, y: Array[fixed, 1], rate: fixed):
    def slope(out, t, y):
        out[0] += rate * y[0] * (1 - y[0]) + t

    with rg.routine() as r:
        z = rg.copy(y)
        states = rg.zeros((7, 1))
        states[0] += y
        reversible_heun(slope, y, z, 0.0, 0.125, 6)
        rk4(slope, states, 0.0, 0.125)
    loss += y[0] * y[0] + 3 * states[6, 0]
    ~r


@pytest.mark.parametrize("scheme", [verlet, yoshida4])
def test_gradients_by_what_the_equation_uses(scheme):
    check_gradient(swing, 0.0, [1.0], [0.25], 2.0, scheme)


def test_gradients_of_first_order_equations():
    check_gradient(spin, 0.0, [0.25], 0.5)


@pytest.mark.parametrize("scheme", [verlet, yoshida4, reversible_heun])
def test_a_thousand_steps_and_back(scheme):
    start = [1.0, 0.5], [1.0, 0.5], 0.0, 2.0**-6, 1000
    force = spiral if scheme is reversible_heun else pendulum
    done = scheme(force, *start)
    back = (~scheme)(*done)
    assert not np.array_equal(done[1], start[0])
    assert back[1].tolist() == start[0]
    assert back[2].tolist() == start[1]


def test_compiling_again_gives_the_same_code():
    """Arrays that weigh the same are taken in the order of the text; a set of them has another order each time."""
    args = pendulum, [[1.0], [0.0], [0.0]], 0.0, 0.125
    found = set()
    for count in range(6):
        junk = [object() for _ in range(7 * count)]
        found.add(rk4.with_options(level=1).assembly(*args))
        assert len(junk) == 7 * count
    assert len(found) == 1
