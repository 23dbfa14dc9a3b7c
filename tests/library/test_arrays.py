"""Arrays against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as rg
from retrograd import fixed, reversible
from retrograd.library import (
    affine,
    axpy,
    cumulative_sum,
    dot,
    filter_into,
    mapfold,
    norm,
    norm2,
    permute,
    reverse,
    sort,
    sort_pairs,
    total,
)


@reversible
def square(y: fixed, x: fixed):
    y += x * x


@reversible
def add(out: fixed, y: fixed):
    out += y


@reversible
def positive(b: bool, x: fixed):
    b ^= x > 0


@pytest.mark.parametrize("n", [0, 1, 7])
def test_reductions(roundtrip, n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(2, n)) * 10
    assert roundtrip(total, 1.0, x).out == pytest.approx(1 + x.sum(), abs=1e-7)
    assert roundtrip(dot, 1.0, x, y).out == pytest.approx(1 + x @ y, abs=1e-7)
    assert roundtrip(norm2, 1.0, x).out == pytest.approx(1 + x @ x, abs=1e-7)
    assert roundtrip(norm, 1.0, x).out == pytest.approx(1 + np.linalg.norm(x), abs=1e-7)


def test_axpy_and_affine(roundtrip):
    rng = np.random.default_rng(1)
    y, b = rng.normal(size=(2, 4))
    w, x = rng.normal(size=(4, 3)), rng.normal(size=3)
    np.testing.assert_allclose(roundtrip(axpy, y, 0.7, b).y, y + 0.7 * b, atol=1e-8)
    np.testing.assert_allclose(roundtrip(affine, y, w, x, b).y, y + w @ x + b, atol=1e-8)


def test_mapfold(roundtrip):
    x = np.array([1.0, -2.0, 3.5])
    assert roundtrip(mapfold, square, add, 1.0, x).out == 1 + x @ x


def test_filter(roundtrip):
    x = np.array([1.0, -2.0, 0.0, 3.5, -1.0, 0.25])
    found = roundtrip(filter_into, positive, np.zeros(4), np.zeros(4, int), 0, x)
    assert found.count == 3
    assert found.kept.tolist() == [1.0, 3.5, 0.25, 0.0]
    assert found.position.tolist() == [0, 3, 5, 0]


def test_filter_needs_room():
    with pytest.raises(rg.ProgramTrap, match="RG0801"):
        filter_into(positive, np.zeros(1), np.zeros(1, int), 0, np.ones(2))


@settings(max_examples=30)
@given(st.lists(st.integers(-5, 5), min_size=9, max_size=9))
def test_sort(roundtrip, x):
    found = roundtrip(sort, np.array(x, float), np.zeros(9, int))
    assert found.x.tolist() == sorted(x)
    assert found.permutation.tolist() == np.argsort(x, kind="stable").tolist()


def test_sort_of_nothing_and_one(roundtrip):
    assert roundtrip(sort, np.zeros(0), np.zeros(0, int)).x.tolist() == []
    assert roundtrip(sort, np.array([2.0]), np.zeros(1, int)).x.tolist() == [2.0]


def test_sort_wants_an_empty_permutation():
    with pytest.raises(rg.ProgramTrap):
        sort(np.array([1.0, 2.0, 0.0]), np.array([0, 0, 1]))


@settings(max_examples=20)
@given(st.lists(st.integers(-3, 3), min_size=6, max_size=6))
def test_sort_of_pairs(roundtrip, x):
    order = np.argsort(x, kind="stable")
    found = roundtrip(sort_pairs, np.array(x, float), np.arange(6) + 1, np.zeros(6, int))
    assert found.x.tolist() == sorted(x)
    assert found.y.tolist() == (order + 1).tolist()
    rows = roundtrip(sort_pairs, np.array(x, float), np.eye(6), np.zeros(6, int)).y
    assert rows.tolist() == np.eye(6)[order].tolist()


@reversible
def weighted(out: fixed, x: rg.Array[fixed, "n"], y: rg.Array[fixed, "n"]):
    with rg.routine() as r:
        order = rg.zeros(len(x), dtype=int)
        sort_pairs(x, y, order)
    for i in range(len(x)):
        out += (i + 1) * y[i] + x[i]
    ~r


def test_derivatives_follow_the_order():
    by_x, by_y = rg.grad(weighted, ("x", "y"))(0.0, [3.0, 1.0, 2.0], [0.0, 0.0, 0.0])
    assert (by_x.tolist(), by_y.tolist()) == ([1.0] * 3, [3.0, 1.0, 2.0])


def test_permutations(roundtrip):
    assert roundtrip(permute, np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1])).x.tolist() == [3.0, 1.0, 2.0]
    for wrong, code in (([0, 0, 1], "RG0802"), ([0, 1, 3], "RG0801")):
        with pytest.raises(rg.ProgramTrap, match=code):
            permute([1.0, 2.0, 3.0], wrong)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 6])
def test_in_place(roundtrip, n):
    x = np.random.default_rng(n).integers(-9, 9, n) / 4
    assert roundtrip(cumulative_sum, x).x.tolist() == np.cumsum(x).tolist()
    assert roundtrip(reverse, x).x.tolist() == x[::-1].tolist()
