"""`round`, and sums, means, minima and maxima of arrays along axes, against Python's and NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.testing import check_gradient, check_inverse


@reversible
def nearest(n: int, x: fixed):
    n += round(x)


@reversible
def reduced(
    least: fixed, columns: Array[fixed, "n"], rows: Array[fixed, "m"], size: int,
    x: Array[fixed, "m", "n"], ks: Array[int, "k"], scale: fixed,
):  # fmt: skip
    least += rg.min(abs(x) * scale) * 2
    columns += rg.max(x, axis=0) - rg.min(x, axis=0)
    rows += rg.sum(x, axis=-1) + rg.mean(x, axis=1)
    size += max(ks) - min(ks) + rg.sum(x > 0)


@reversible
def softmax(ys: Array[fixed, "n"], xs: Array[fixed, "n"]):
    with rg.routine() as r:
        e = rg.exp(xs - max(xs))
    ys += e / rg.sum(e)
    ~r


@reversible
def spread(y: fixed, xs: Array[fixed, "n"]):
    y += max(xs * xs) * rg.min(xs) + max(xs)


@reversible
def climb(y: fixed, xs: Array[fixed, "n"], depth: int):
    """A maximum is at hand while the function calls itself."""
    if depth > 0 and max(xs) > 1:
        y += max(xs) * depth
        climb(y, xs, depth - 1)


@pytest.mark.parametrize("frac", [0, 1, 16, 32])
def test_round_is_pythons(frac):
    form, unit = rg.Format(width=64, frac=frac), 2.0**-frac
    values = [
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        -2.5,
        0.5 + unit,
        0.5 - unit,
        2.5 - unit,
        -2.5 + unit,
        3.25,
        -3.75,
        0.0,
        -1e9 - 0.5,
    ]
    for value in (v for v in values if (v / unit).is_integer()):
        assert rg.run(nearest, 0, value, format=form).values.n == round(value)
    assert rg.run(nearest, 0, 2.5, format="Q8.24").values.n == 2


@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_reductions_are_numpys(engine):
    x = np.round(np.random.default_rng(3).normal(size=(3, 4)) * 64) / 64
    given = (0.0, np.zeros(4), np.zeros(3), 0, x, np.array([5, -7, 2]), 0.5)
    done = rg.run(reduced, *given, engine=engine)
    out = done.values
    assert done.erased_bits == 0
    assert out.least == abs(x).min()
    assert np.array_equal(out.columns, x.max(0) - x.min(0))
    assert np.allclose(out.rows, x.sum(1) + x.mean(1), atol=1e-9)
    assert out.size == 12 + np.sum(x > 0)
    check_inverse(reduced, *given)


def test_gradients_reach_the_extreme_element_only():
    x = np.array([[1.0, -3.0, 0.5], [2.0, 2.0, -0.25]])
    given = (0.0, np.zeros(3), np.zeros(2), 0, x, np.array([1]), 3.0)
    slopes = rg.grad(reduced, argnums="x", loss="least")(*given)
    assert slopes.tolist() == [[0, 0, 0], [0, 0, -6]]
    slopes = rg.vjp(reduced, *given)[1]({"columns": [1.0, 2.0, 4.0]})
    assert slopes.x.tolist() == [[-1, -2, 4], [1, 2, -4]]
    check_gradient(spread, 0.0, np.array([0.5, 1.0, -1.5, 0.25]))
    # Of two equal values the later one is chosen.
    assert rg.grad(spread, "xs")(0.0, np.array([2.0, 2.0])).tolist() == [0, 13]


def test_a_maximum_of_each_activation_of_a_recursive_function():
    done = rg.run(climb, 0.0, [1.0, 2.0, 1.5], 4)
    assert done.values.y == 20.0
    assert done.erased_bits == 0
    assert rg.grad(climb, "xs")(0.0, [1.0, 2.0, 1.5], 4).tolist() == [0, 10, 0]
    check_inverse(climb, 0.0, [1.0, 2.0, 1.5], 4)


def test_softmax_is_numpys():
    xs = np.array([1.0, 2.0, 3.0])
    assert np.allclose(softmax(np.zeros(3), xs).ys, np.exp(xs) / np.exp(xs).sum(), atol=1e-8)


@reversible
def outer(y: Array[fixed, "m", "n"], z: Array[fixed, "m", "n"], a: Array[fixed, "m"], b: Array[fixed, "n"]):
    y += a[:, None] * b[None]
    z += (a + 1)[..., np.newaxis] - b[np.newaxis, :]


def test_new_axes_are_numpys():
    a, b = np.array([1.0, 2.0, -3.0]), np.array([0.5, 4.0])
    out = outer(np.zeros((3, 2)), np.zeros((3, 2)), a, b)
    assert np.array_equal(out.y, np.outer(a, b))
    assert np.array_equal(out.z, (a + 1)[:, None] - b[None])


@reversible
def kept(y: Array[fixed, "m", "n", "k"], x: Array[fixed, "m", "n", "k"]):
    y += x - rg.mean(x, axis=-1, keepdims=True) * x.max(axis=(0, 2), keepdims=True) + rg.sum(x, keepdims=True)
    y += rg.min(x, axis=1, keepdims=False)[:, None] + np.sum([[1.0, 2.0]], axis=1, keepdims=True)


def test_axes_that_are_kept_have_length_one_as_in_numpy():
    x = np.random.default_rng(5).uniform(-1, 1, (2, 3, 4))
    wanted = x - x.mean(axis=-1, keepdims=True) * x.max(axis=(0, 2), keepdims=True) + x.sum(keepdims=True)
    wanted += x.min(axis=1)[:, None] + 3.0
    assert np.allclose(kept(np.zeros(x.shape), x).y, wanted, atol=1e-8)
    check_gradient(kept, np.zeros(x.shape), x, loss="y[1, 2, 3]")


@reversible
def made(y: Array[fixed, 3]):
    y += np.zeros(3, dtype=int) + np.array([1, 2, 3], dtype=float) / np.arange(1, 4, dtype=np.int64)


@reversible
def ordered(y: Array[fixed, 3]):
    y += np.zeros(3, order="F")


@reversible
def read_from_text(y: fixed):
    y += float("0.25") + int("three")


def test_arrays_of_numpy_take_a_type_and_no_other_keyword():
    assert made(np.zeros(3)).y.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(rg.CompileError, match=r"RG0715[\s\S]*but `dtype=`[\s\S]*by position"):
        ordered(np.zeros(3))


def test_text_that_is_no_number_is_not_out_of_range():
    with pytest.raises(rg.CompileError, match=r"RG0703[\s\S]*`int\('three'\)`: ValueError"):
        read_from_text(0.0)
