"""Interpolation and quadrature against NumPy and SciPy, and their derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate
from scipy.interpolate import CubicSpline

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import gauss_legendre, interpolate, interpolate_cubic, simpson, spline, trapezoid
from retrograd.testing import check_gradient

rng = np.random.default_rng(2)


def points(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum(rng.uniform(0.2, 1.0, size=n)) - 1, rng.normal(size=n)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 9])
def test_lines_between_points(n):
    xs, ys = points(n)
    xs = np.round(xs * 2**20) / 2**20  # words, so that the ends lie inside
    for x in (*xs, *rng.uniform(xs[0], xs[-1], size=4)):
        assert interpolate(0.5, x, xs, ys).y == pytest.approx(0.5 + np.interp(x, xs, ys), abs=1e-8)


def test_interpolation_leaves_no_garbage(roundtrip):
    xs, ys = points(6)
    roundtrip(interpolate, 0.0, 0.3, xs, ys)
    m = roundtrip(spline, np.zeros(6), xs, ys).m
    roundtrip(interpolate_cubic, 0.0, 0.3, xs, ys, m)


@pytest.mark.parametrize("x", [-0.5, 2.5])
def test_no_value_beyond_the_points(x):
    for args in (
        (interpolate, 0.0, x, [0.0, 1.0, 2.0], [1.0] * 3),
        (interpolate_cubic, 0.0, x, [0.0, 1.0, 2.0], [1.0] * 3, [0.0] * 3),
    ):
        with pytest.raises(rg.ProgramTrap, match="RG0804"):
            args[0](*args[1:])


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_splines(n):
    xs, ys = points(n)
    m = spline(np.zeros(n), xs, ys).m
    expected = CubicSpline(xs, ys, bc_type="natural") if n > 2 else np.poly1d(np.polyfit(xs, ys, 1))
    if n > 2:
        np.testing.assert_allclose(m, expected(xs, 2), rtol=0, atol=1e-6)
    for x in rng.uniform(xs[0], xs[-1], size=5):
        assert interpolate_cubic(0.0, x, xs, ys, m).y == pytest.approx(float(expected(x)), abs=1e-8)
        slope = rg.grad(interpolate_cubic, "x")(0.0, x, xs, ys, m)
        assert slope == pytest.approx(float(expected(x, 1) if n > 2 else expected.deriv()(x)), abs=1e-6)


def test_points_of_a_spline_ascend():
    with pytest.raises(rg.ProgramTrap, match="RG0804"):
        spline([0.0] * 3, [0.0, 1.0, 1.0], [0.0] * 3)


@reversible
def through(y: fixed, x: fixed, xs: Array[fixed, "n"], ys: Array[fixed, "n"]):
    with rg.routine() as r:
        m = rg.zeros(len(xs))
        spline(m, xs, ys)
    interpolate_cubic(y, x, xs, ys, m)
    ~r


@pytest.mark.parametrize("f", [interpolate, through])
def test_gradients_of_interpolation(f):
    xs, ys = points(4)
    check_gradient(f, 0.0, (xs[1] + xs[2]) / 2, xs, ys)


@pytest.mark.parametrize("n", [3, 4, 9, 10])
def test_integrals_of_samples(roundtrip, n):
    ys = rng.normal(size=n)
    assert roundtrip(trapezoid, 0.5, ys, 0.25).out == pytest.approx(0.5 + np.trapezoid(ys, dx=0.25), abs=1e-8)
    if n % 2:
        assert roundtrip(simpson, 0.5, ys, 0.25).out == pytest.approx(0.5 + integrate.simpson(ys, dx=0.25), abs=1e-8)
        check_gradient(simpson, 0.0, ys, 0.25)
    check_gradient(trapezoid, 0.0, ys, 0.25)


def test_simpson_refuses_an_even_number_of_samples():
    with pytest.raises(rg.RetrogradError, match="RG0804"):
        simpson(0.0, [1.0] * 4, 1.0)


@reversible
def area(out: fixed, rate: fixed, a: fixed, b: fixed):
    """out += ∫ₐᵇ e^(rate x) dx"""
    gauss_legendre(lambda x: rg.exp(rate * x), out, a, b)


@reversible
def fifth(y: fixed, x: fixed):
    y += x**5


def test_gauss_legendre(roundtrip):
    assert roundtrip(area, 0.0, 0.5, -1.0, 2.0).out == pytest.approx(2 * (np.e - np.exp(-0.5)), abs=1e-8)
    check_gradient(area, 0.0, 0.5, -1.0, 2.0)
    for nodes, exact in ((3, True), (2, False)):
        error = abs(gauss_legendre(fifth, 0.0, 0.0, 2.0, nodes).out - 64 / 6)
        assert (error < 1e-7) is exact
