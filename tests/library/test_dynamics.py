"""Bodies and waves against the same schemes in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd.library import kick, lax_wendroff, lax_wendroff_step, leapfrog

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
