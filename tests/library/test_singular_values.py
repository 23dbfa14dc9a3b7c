"""Singular values and vectors against NumPy; derivatives, and the places where there are none."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import svd


def random(n: int, m: int, count: int) -> np.ndarray:
    return np.random.default_rng(10 * n + m).normal(size=(count, n, m))


def degenerate(n: int, m: int, count: int) -> np.ndarray:
    """Matrices with singular values of 0, 1 and 2, two of them equal; zero, one, and all ones."""
    rng = np.random.default_rng(n)
    left = np.linalg.qr(rng.normal(size=(count, n, n)))[0][:, :, :m]
    right = np.linalg.qr(rng.normal(size=(count, m, m)))[0]
    values = rng.integers(0, 3, size=(count, m)).astype(float)
    values[:, 0] = values[:, -1]
    made = (left * values[:, None, :]) @ right
    made[0], made[1], made[2] = 0, np.eye(n, m), 1
    return np.round(made * 2**32) / 2**32


def check(matrices: np.ndarray) -> None:
    count, n, m = matrices.shape
    found = rg.run_batch(svd, np.zeros((count, n, m)), np.zeros((count, m)), np.zeros((count, m, m)), matrices)
    u, s, v = (np.asarray(x, float) for x in found.values[:3])
    one = np.broadcast_to(np.eye(m), v.shape)
    np.testing.assert_allclose(s, np.linalg.svd(matrices, compute_uv=False), rtol=0, atol=n * 1e-9)
    np.testing.assert_allclose(u.swapaxes(1, 2) @ u, one, rtol=0, atol=n * 4e-9)
    np.testing.assert_allclose(v.swapaxes(1, 2) @ v, one, rtol=0, atol=n * 4e-9)
    np.testing.assert_allclose((u * s[:, None, :]) @ v.swapaxes(1, 2), matrices, rtol=0, atol=n * 4e-9)
    assert not found.erased_bits.any()


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 2)])
def test_values_and_vectors_of_some_matrices(n, m):
    check(random(n, m, 20))
    check(degenerate(n, m, 10))


@pytest.mark.long
@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 3), (4, 4), (6, 3), (7, 1), (5, 5)])
def test_values_and_vectors(n, m):
    """1,000 matrices and more, and 100 with equal singular values or without full rank."""
    check(random(n, m, 200))
    check(degenerate(n, m, 20))


@pytest.mark.long
def test_values_of_a_larger_matrix():
    check(random(12, 10, 1))


@pytest.mark.parametrize(
    "a", [np.zeros((3, 2)), np.eye(2), [[3.0, 0.0], [4.0, 5.0]], [[0.0, -2.0], [0.0, 0.0]], [[-3.0]]]
)
def test_a_decomposition_runs_back(a):
    n, m = np.shape(a)
    start = np.zeros((n, m)), np.full(m, 0.5), np.zeros((m, m)), np.array(a)
    found = svd(*start)
    assert all(np.array_equal(x, y) for x, y in zip((~svd)(*found), start, strict=False))
    assert found.s.tolist() == pytest.approx((np.linalg.svd(a, compute_uv=False) + 0.5).tolist(), abs=1e-9)


def test_small_values_keep_their_digits():
    """10⁻⁶ beside 1: a method that squares would have no digit of it."""
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    found = svd(np.zeros((2, 2)), [0.0, 0.0], np.zeros((2, 2)), turn @ np.diag([1.0, 1e-6]) @ turn)
    assert found.s.tolist() == pytest.approx([1.0, 1e-6], abs=1e-9)


@pytest.mark.parametrize("format", ["Q14.18", "Q8.24", "Q4.60"])
def test_other_formats(format):
    for a in random(3, 2, 5):
        found = rg.run(svd, np.zeros((3, 2)), np.zeros(2), np.zeros((2, 2)), a, format=format).values
        error = 2.0 ** (6 - min(int(format.split(".")[1]), 52))
        np.testing.assert_allclose(found.s, np.linalg.svd(a, compute_uv=False), rtol=0, atol=error)


def test_what_is_refused():
    with pytest.raises(rg.RetrogradError, match="RG0804"):
        svd(np.zeros((5, 5)), np.zeros(5), np.zeros((5, 5)), random(5, 5, 1)[0], 1)
    with pytest.raises(rg.RetrogradError, match="RG0804"):
        svd(np.zeros((1, 2)), np.zeros(2), np.zeros((2, 2)), [[1.0, 2.0]])


@reversible
def mixed(y: fixed, a: Array[fixed, "n", "m"], c: Array[fixed, "n", "m"]):
    """Singular values and vectors together, independent of the signs of these."""
    m = a.shape[1]
    with rg.routine() as r:
        u, s, v = rg.zeros_like(a), rg.zeros(m), rg.zeros((m, m))
        svd(u, s, v, a)
    for i in range(m):
        y += s[i] * s[i] * c[0, i] + u[0, i] * u[1, i] * c[1, i] + u[1, i] * v[0, i] * c[2, i]
    ~r


@reversible
def squares(y: fixed, a: Array[fixed, "n", "m"]):
    """|A|²"""
    m = a.shape[1]
    with rg.routine() as r:
        u, s, v = rg.zeros_like(a), rg.zeros(m), rg.zeros((m, m))
        svd(u, s, v, a)
    y += rg.sum(s * s)
    ~r


@reversible
def greatest(y: fixed, a: Array[fixed, "n", "m"]):
    m = a.shape[1]
    with rg.routine() as r:
        u, s, v = rg.zeros_like(a), rg.zeros(m), rg.zeros((m, m))
        svd(u, s, v, a)
    y += s[0]
    ~r


@reversible
def nuclear(y: fixed, a: Array[fixed, "n", "m"]):
    m = a.shape[1]
    with rg.routine() as r:
        u, s, v = rg.zeros_like(a), rg.zeros(m), rg.zeros((m, m))
        svd(u, s, v, a)
    y += rg.sum(s)
    ~r


@reversible
def corner(y: fixed, a: Array[fixed, "n", "m"]):
    m = a.shape[1]
    with rg.routine() as r:
        u, s, v = rg.zeros_like(a), rg.zeros(m), rg.zeros((m, m))
        svd(u, s, v, a)
    y += v[0, 0] * v[0, 0]
    ~r


@reversible
def beside(y: fixed, a: Array[fixed, 2, 2], right: bool):
    """Of the vectors of the least singular value."""
    with rg.routine() as r:
        u, s, v = rg.zeros_like(a), rg.zeros(2), rg.zeros_like(a)
        svd(u, s, v, a)
    y += v[0, 1] * v[1, 1] if right else u[0, 1] * u[1, 1]
    ~r


@pytest.mark.parametrize(("n", "m"), [(3, 3), (4, 2)])
def test_the_gradient_by_a_matrix_is_that_of_differences(n, m):
    a, c = random(n, m, 2)
    h = 1e-5

    def value(a: np.ndarray) -> float:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return float((s * s * c[0] + u[0] * u[1] * c[1] + u[1] * vh[:, 0] * c[2]).sum())

    def difference(i: int, j: int) -> float:
        step = np.zeros((n, m))
        step[i, j] = h
        return (value(a + step) - value(a - step)) / (2 * h)

    expected = [[difference(i, j) for j in range(m)] for i in range(n)]
    np.testing.assert_allclose(rg.grad(mixed, "a")(0.0, a, c), expected, rtol=0, atol=2e-7)


def test_the_gradient_is_right_at_equal_values_where_the_loss_is_smooth():
    """∂|A|²/∂A = 2 A, without full rank, too; the sum of the singular values has the slope U Vᵀ where none is zero."""
    for a in degenerate(3, 2, 5):
        np.testing.assert_allclose(rg.grad(squares, "a")(0.0, a), 2 * a, rtol=0, atol=1e-7)
    np.testing.assert_allclose(rg.grad(nuclear, "a")(0.0, 2 * np.eye(3, 2)), np.eye(3, 2), rtol=0, atol=1e-8)


@pytest.mark.parametrize(("loss", "a"), [(greatest, np.eye(2)), (corner, np.eye(2)), (nuclear, np.diag([1.0, 0.0]))])
def test_the_gradient_traps_where_the_loss_is_not_smooth(loss, a):
    rg.grad(loss, "a")(0.0, np.diag([2.0, 1.0]))
    with pytest.raises(rg.RetrogradError, match="RG0804"):
        rg.grad(loss, "a")(0.0, a)


def test_the_null_space_has_a_gradient():
    """A = [[1, h], [0, 0]] maps (−h, 1) to 0."""
    assert rg.grad(beside, "a")(0.0, np.diag([1.0, 0.0]), True).tolist() == [[0.0, -1.0], [0.0, 0.0]]
    assert rg.grad(beside, "a")(0.0, np.diag([1.0, 0.5]), False).any()
    with pytest.raises(rg.RetrogradError, match="RG0804"):
        rg.grad(beside, "a")(0.0, np.diag([1.0, 0.0]), False)
