"""Sparse matrices against SciPy, empty columns and equal patterns among them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import retrograd as rg
from retrograd.library import sparse_dot, sparse_dot_scattered, sparse_matmul


def columns(dense):
    a = sparse.csc_array(dense)
    a.sum_duplicates()
    return a.indptr, a.indices, a.data


def random_dense(rng, shape, density):
    return np.where(rng.random(shape) < density, rng.integers(-40, 40, shape) / 8, 0.0)


def both(roundtrip, a, b):
    expected = (a * b).sum()
    assert roundtrip(sparse_dot, 1.0, *columns(a), *columns(b)).out == 1 + expected
    assert roundtrip(sparse_dot_scattered, 1.0, len(a), *columns(a), *columns(b)).out == 1 + expected


@pytest.mark.long
@settings(max_examples=12)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.5, 0.9]), st.sampled_from([0.1, 0.5, 0.9]))
def test_dot(roundtrip, seed, p, q):
    rng = np.random.default_rng(seed)
    both(roundtrip, random_dense(rng, (7, 4), p), random_dense(rng, (7, 4), q))


def test_equal_patterns(roundtrip):
    a = random_dense(np.random.default_rng(3), (8, 5), 0.4)
    both(roundtrip, a, a)


@pytest.mark.parametrize("which", [0, 2, 4])
def test_empty_columns(roundtrip, which):
    a = random_dense(np.random.default_rng(4), (6, 5), 0.6)
    b = random_dense(np.random.default_rng(5), (6, 5), 0.6)
    hollow = a.copy()
    hollow[:, which] = 0
    both(roundtrip, hollow, b)
    both(roundtrip, b, hollow)
    both(roundtrip, hollow, hollow)


def test_nothing_at_all(roundtrip):
    zero, a = np.zeros((3, 2)), np.ones((3, 2))
    both(roundtrip, zero, a)
    both(roundtrip, a, zero)
    both(roundtrip, zero, zero)


@pytest.mark.parametrize("rows", [[1, 0], [0, 2, 1], [5, 1], [-1, 3]])
@pytest.mark.parametrize("others", [[0, 1], [1, 6], [3], [9], []])
def test_rows_that_do_not_ascend_are_found_out(rows, others):
    """Rows below zero, too: whichever of the matrices has them."""
    bad = [0, len(rows)], rows, [2.0] * len(rows)
    good = [0, len(others)], others, [3.0] * len(others)
    with pytest.raises(rg.ProgramTrap):
        sparse_dot(0.0, *bad, *good)
    with pytest.raises(rg.ProgramTrap):
        sparse_dot(0.0, *good, *bad)


@pytest.mark.parametrize("starts", [[0, 3], [-1, 1], [1, 0]])
def test_starts_outside_of_the_rows_are_found_out(starts):
    good, bad = ([0, 2], [0, 1], [1.0, 2.0]), (starts, [0, 1], [1.0, 2.0])
    for pair in ((good, bad), (bad, good)):
        with pytest.raises(rg.ProgramTrap):
            sparse_dot(0.0, *pair[0], *pair[1])


def test_complex_product(roundtrip):
    rng = np.random.default_rng(6)
    a = random_dense(rng, (5, 4), 0.5) + 1j * random_dense(rng, (5, 4), 0.5)
    a[:, 1] = 0
    b = rng.integers(-8, 8, (4, 3)) / 4 + 0.5j
    c = rng.integers(-8, 8, (5, 3)) + 2j
    starts, rows, values = columns(a)
    found = roundtrip(sparse_matmul, c, starts, rows, values, b, 0.5 - 2j)
    np.testing.assert_allclose(found.c.astype(complex), c + (0.5 - 2j) * (a @ b), atol=1e-8)


@pytest.mark.long
def test_a_large_one(roundtrip):
    rng = np.random.default_rng(7)
    both(roundtrip, random_dense(rng, (200, 200), 0.05), random_dense(rng, (200, 200), 0.05))
