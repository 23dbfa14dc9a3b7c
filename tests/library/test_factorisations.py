"""Eigenvalues, Cholesky's factor, least squares, the greatest element, against NumPy; derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import argmax, cholesky, eigh, lstsq
from retrograd.testing import check_gradient


def symmetric(n: int, count: int) -> np.ndarray:
    a = np.random.default_rng(n).normal(size=(count, n, n))
    return (a + a.swapaxes(1, 2)) / 2


def degenerate(n: int, count: int) -> np.ndarray:
    """Matrices with equal eigenvalues, of −1, 0, 1 and 2; the first is diagonal, the next has one eigenvalue."""
    rng = np.random.default_rng(n)
    q = np.linalg.qr(rng.normal(size=(count, n, n)))[0]
    values = rng.integers(-1, 3, size=(count, n)).astype(float)
    values[:, 1] = values[:, 0]
    q[0] = np.eye(n)
    values[1] = values[1, 0]
    return np.round((q * values[:, None, :]) @ q.swapaxes(1, 2) * 2**32) / 2**32


def check(matrices: np.ndarray) -> None:
    count, n, _ = matrices.shape
    found = rg.run_batch(eigh, np.zeros((count, n)), np.zeros((count, n, n)), matrices)
    w, v = np.asarray(found.values.w, float), np.asarray(found.values.v, float)
    np.testing.assert_allclose(w, np.linalg.eigvalsh(matrices), rtol=0, atol=n * 5e-10)
    np.testing.assert_allclose(v.swapaxes(1, 2) @ v, np.broadcast_to(np.eye(n), v.shape), rtol=0, atol=n * 2e-9)
    np.testing.assert_allclose((v * w[:, None, :]) @ v.swapaxes(1, 2), matrices, rtol=0, atol=n * 4e-9)
    assert not found.erased_bits.any()


@pytest.mark.parametrize("n", [2, 3])
def test_eigenvalues_and_vectors_of_some_matrices(n):
    check(symmetric(n, 20))
    check(degenerate(n, 10))


@pytest.mark.long
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_eigenvalues_and_vectors(n):
    """1,000 matrices, and 100 with equal eigenvalues."""
    check(symmetric(n, 200))
    check(degenerate(n, 20))


@pytest.mark.long
def test_eigenvalues_of_a_larger_matrix():
    check(symmetric(12, 1))


@pytest.mark.parametrize(
    "a", [np.zeros((3, 3)), np.eye(2), [[2.0, 1.0], [1.0, 2.0]], [[0.0, 1.0], [0.0, 0.0]], [[3.0]]]
)
def test_eigenvalues_run_back(a):
    n = len(a)
    start = [0.5] * n, np.zeros((n, n)), np.array(a)
    found = eigh(*start)
    assert all(np.array_equal(x, y) for x, y in zip((~eigh)(*found), start, strict=False))
    expected = np.linalg.eigvalsh((np.array(a) + np.transpose(a)) / 2)
    assert found.w.tolist() == pytest.approx((expected + 0.5).tolist(), abs=1e-9)


def test_too_few_sweeps_trap():
    with pytest.raises(rg.RetrogradError, match="RG0804"):
        eigh(np.zeros(4), np.zeros((4, 4)), symmetric(4, 1)[0], 1)


@reversible
def mixed(y: fixed, a: Array[fixed, "n", "n"], c: Array[fixed, "n", "n"]):
    """Eigenvalues and vectors together, independent of the signs of these."""
    with rg.routine() as r:
        w, v = rg.zeros(len(a)), rg.zeros_like(a)
        eigh(w, v, a)
    for i in range(len(a)):
        y += w[i] * w[i] * c[0, i] + v[0, i] * v[1, i] * c[1, i]
    ~r


@reversible
def cubes(y: fixed, a: Array[fixed, "n", "n"]):
    """trace A³"""
    with rg.routine() as r:
        w, v = rg.zeros(len(a)), rg.zeros_like(a)
        eigh(w, v, a)
    y += rg.sum(w * w * w)
    ~r


@reversible
def least(y: fixed, a: Array[fixed, "n", "n"]):
    with rg.routine() as r:
        w, v = rg.zeros(len(a)), rg.zeros_like(a)
        eigh(w, v, a)
    y += w[0]
    ~r


@reversible
def corner(y: fixed, a: Array[fixed, "n", "n"]):
    with rg.routine() as r:
        w, v = rg.zeros(len(a)), rg.zeros_like(a)
        eigh(w, v, a)
    y += v[0, 0] * v[0, 0]
    ~r


def test_the_gradient_by_a_matrix_is_that_of_differences():
    a, c = symmetric(3, 2)
    h = 1e-5

    def value(a: np.ndarray) -> float:
        w, v = np.linalg.eigh((a + a.T) / 2)
        return float((w * w * c[0] + v[0] * v[1] * c[1]).sum())

    def difference(i: int, j: int) -> float:
        step = np.zeros((3, 3))
        step[i, j] = h
        return (value(a + step) - value(a - step)) / (2 * h)

    expected = [[difference(i, j) for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(rg.grad(mixed, "a")(0.0, a, c), expected, rtol=0, atol=1e-7)


def test_the_gradient_is_right_at_equal_eigenvalues_where_the_loss_is_smooth():
    """∂ trace A³/∂A = 3 A²"""
    for a in (*degenerate(3, 4), np.zeros((3, 3))):
        np.testing.assert_allclose(rg.grad(cubes, "a")(0.0, a), 3 * a @ a, rtol=0, atol=1e-6)


@pytest.mark.parametrize("loss", [least, corner])
def test_the_gradient_traps_at_equal_eigenvalues_where_it_is_not(loss):
    expected = [[float(loss is least), 0.0], [0.0, 0.0]]
    assert rg.grad(loss, "a")(0.0, np.diag([1.0, 2.0])).tolist() == expected
    for a in (np.eye(2), np.zeros((2, 2))):
        with pytest.raises(rg.RetrogradError, match="RG0804"):
            rg.grad(loss, "a")(0.0, a)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_cholesky(roundtrip, n):
    b = np.random.default_rng(n).normal(size=(n, n + 2))
    a = b @ b.T
    found = roundtrip(cholesky, np.zeros((n, n)), a)
    np.testing.assert_allclose(np.asarray(found.low, float), np.linalg.cholesky(a), rtol=0, atol=1e-7)


@pytest.mark.parametrize(("a", "code"), [([[1.0, 2.0], [2.0, 1.0]], "RG0403"), ([[0.0, 1.0], [1.0, 1.0]], "RG0402")])
def test_cholesky_of_a_matrix_that_is_not_positive_definite_traps(a, code):
    with pytest.raises(rg.RetrogradError, match=code):
        cholesky(np.zeros((2, 2)), a)


@reversible
def logarithm_of_the_determinant(y: fixed, a: Array[fixed, "n", "n"]):
    with rg.routine() as r:
        low = rg.zeros_like(a)
        cholesky(low, a)
    for i in range(len(a)):
        y += 2 * rg.log(low[i, i])
    ~r


def test_the_gradient_of_a_determinant_by_cholesky():
    """∂ ln det A/∂A = A⁻¹, all of it by the triangle that is read."""
    a = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 2.0]])
    inverse = np.linalg.inv(a)
    expected = np.tril(inverse) + np.tril(inverse, -1)
    np.testing.assert_allclose(rg.grad(logarithm_of_the_determinant, "a")(0.0, a), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (4, 4), (7, 3)])
def test_least_squares(roundtrip, n, m):
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(n, m)), rng.normal(size=n)
    found = roundtrip(lstsq, np.zeros(m), a, b)
    np.testing.assert_allclose(np.asarray(found.x, float), np.linalg.lstsq(a, b)[0], rtol=0, atol=1e-7)


@reversible
def misfit(y: fixed, a: Array[fixed, "n", "m"], b: Array[fixed, "n"]):
    with rg.routine() as r:
        x = rg.zeros(a.shape[1])
        lstsq(x, a, b)
    y += rg.sum((a @ x - b) ** 2)
    ~r


def test_the_gradient_of_least_squares():
    rng = np.random.default_rng(3)
    check_gradient(misfit, 0.0, rng.normal(size=(3, 2)), rng.normal(size=3))


def test_least_squares_with_dependent_columns_traps():
    with pytest.raises(rg.RetrogradError, match="RG0402"):
        lstsq([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]], [1.0, 2.0])


@pytest.mark.parametrize("x", [[3.0], [1.0, 5.0, 2.0], [1.0, 4.0, 4.0, -4.0], [0.0, 0.0], [-2.0, -1.0]])
def test_the_index_of_the_greatest_element(roundtrip, x):
    assert roundtrip(argmax, 7, x).i == 7 + np.argmax(x)
