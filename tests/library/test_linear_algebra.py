"""Matrices against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd.library import determinant, eliminate, inverse, matmul, matvec, qr, rotate_planes, solve


def matrix(n, m=None, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n if m is None else m))


def test_products(roundtrip):
    a, b, c = matrix(3, 4), matrix(4, 2), matrix(3, 2)
    x, y = np.arange(4.0), np.ones(3)
    np.testing.assert_allclose(roundtrip(matvec, y, a, x).y, y + a @ x, atol=1e-8)
    np.testing.assert_allclose(roundtrip(matmul, c, a, b).c, c + a @ b, atol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_determinant(roundtrip, n):
    a = matrix(n, seed=n)
    assert roundtrip(determinant, 0.5, a).out == pytest.approx(0.5 + np.linalg.det(a), abs=1e-7)


def test_determinant_of_dependent_rows(roundtrip):
    assert roundtrip(determinant, 0.0, np.ones((4, 4))).out == 0


def test_elimination_exchanges_rows(roundtrip):
    a = np.array([[0.0, 2.0, 1.0], [4.0, 1.0, 0.0], [2.0, 0.0, 8.0]])
    found = roundtrip(eliminate, a, np.zeros((3, 3)), np.zeros(3, int))
    assert found.pivots[0] == 1
    exchanged = a.copy()
    for k, p in enumerate(found.pivots):
        exchanged[[k, p]] = exchanged[[p, k]]
    np.testing.assert_allclose((found.factors + np.eye(3)) @ np.triu(found.u), exchanged, atol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_solve_and_inverse(roundtrip, n):
    a = matrix(n, seed=n + 1)
    b = matrix(n, 2, seed=3)
    np.testing.assert_allclose(roundtrip(solve, np.zeros(n), a, b[:, 0]).x, np.linalg.solve(a, b[:, 0]), atol=1e-6)
    np.testing.assert_allclose(roundtrip(solve, np.zeros((n, 2)), a, b).x, np.linalg.solve(a, b), atol=1e-6)
    np.testing.assert_allclose(roundtrip(inverse, np.zeros((n, n)), a).out, np.linalg.inv(a), atol=1e-6)


def test_singular_matrices_trap():
    with pytest.raises(rg.ProgramTrap):
        solve(np.zeros(2), np.ones((2, 2)), np.ones(2))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 3), (4, 2)])
def test_qr(roundtrip, n, m):
    a = matrix(n, m, seed=7) + 1
    found = roundtrip(qr, np.zeros((n, m)), np.zeros((m, m)), a)
    np.testing.assert_allclose(found.q @ found.r, a, atol=1e-8)
    np.testing.assert_allclose(found.q.T @ found.q, np.eye(m), atol=1e-6)
    assert np.array_equal(found.r, np.triu(found.r))


def test_products_of_rotations_are_orthogonal(roundtrip):
    n = 4
    angles = np.random.default_rng(2).uniform(-9, 9, n * (n - 1) // 2)
    u = roundtrip(rotate_planes, np.eye(n), angles).x
    np.testing.assert_allclose(u @ u.T, np.eye(n), atol=1e-8)
    assert np.linalg.det(u) == pytest.approx(1, abs=1e-8)
    x = matrix(n, 2)
    np.testing.assert_allclose(roundtrip(rotate_planes, x, angles).x, u @ x, atol=1e-8)
    expected = np.eye(n)
    for t, i in zip(angles, [2, 1, 0, 2, 1, 2], strict=True):
        turn = np.eye(n)
        turn[i : i + 2, i : i + 2] = [[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]]
        expected = turn @ expected
    np.testing.assert_allclose(u, expected, atol=1e-8)
