"""Elementary functions of the library: their errors in units against mpmath, their derivatives, their ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible

#: name → (mpmath's function, interval, largest error in units of Q32.32)
CASES: dict[str, tuple[Callable[[Any], Any], tuple[float, float], float]] = {
    "tanh": (mpmath.tanh, (-12, 12), 2),
    "sinh": (mpmath.sinh, (-4, 4), 1),
    "cosh": (mpmath.cosh, (-4, 4), 1),
    "asin": (mpmath.asin, (-0.99, 0.99), 3),
    "acos": (mpmath.acos, (-0.99, 0.99), 3),
    "log2": (lambda x: mpmath.log(x, 2), (0.01, 100), 3),
    "log10": (mpmath.log10, (0.01, 100), 2),
    "exp2": (lambda x: mpmath.power(2, x), (-12, 0), 1.5),
    "expm1": (mpmath.expm1, (-4, 1), 1),
    "log1p": (mpmath.log1p, (-0.99, 10), 0.6),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), (-1000, 1000), 1.5),
    "erf": (mpmath.erf, (-7, 7), 4),
}


def test_every_function_has_a_case() -> None:
    from retrograd.library import elementary

    assert {*CASES, "hypot"} == {*elementary.__all__}


def _points(low: float, high: float, count: int, places: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(20261123)
    return np.asarray(np.round(rng.uniform(low, high, count) * 2.0**places) / 2.0**places)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("format", "places", "most"), [("Q32.32", 32, 1.0), ("Q16.16", 16, 1.0), ("Q16.48", 40, 64.0)])
def test_error(name: str, format: str, places: int, most: float) -> None:
    """Constants are float64, which in Q16.48 are less exact than a unit."""
    exact, (low, high), units = CASES[name]
    f = getattr(rg, name)
    xs = _points(low, high, 150, places)
    found = rg.run_batch(f, xs, np.zeros(len(xs)), format=format).values[1]
    unit = mpmath.mpf(2) ** -rg.Format(width=64, frac=48).frac if format == "Q16.48" else mpmath.mpf(2) ** -places
    errors = [abs(mpmath.mpf(float(y)) - exact(mpmath.mpf(float(x)))) / unit for x, y in zip(xs, found, strict=True)]
    assert max(errors) <= units * most, name


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    """The first derivative, and the second as its derivative."""
    exact, (low, high), _ = CASES[name]
    f = getattr(rg, name)
    for x in (low + (high - low) * t for t in (0.27, 0.61, 0.83)):
        point = float(np.round(x * 2**20) / 2**20)
        with mpmath.workdps(30):
            first, second = (float(mpmath.diff(exact, point, n)) for n in (1, 2))
        scale = max(1.0, abs(first), abs(second))
        assert abs(rg.grad(f, "x")(point) - first) < 1e-6 * scale
        assert abs(rg.grad(rg.grad(f, "x"), "x")(point) - second) < 1e-5 * scale


def test_hypot() -> None:
    """No square overflows or vanishes; the error is a part of the larger size."""
    for x, y in ((3.0, 4.0), (-1e6, 1e-3), (2e-4, -1e-4), (0.0, -0.5), (1e9, 1e9)):
        value = rg.hypot(x, y)
        size = max(abs(x), abs(y))
        assert abs(value - mpmath.hypot(x, y)) <= (1 + 1.5 * size) * 2.0**-32
    assert rg.hypot(0.0, 0.0) == 0.0
    assert tuple(rg.grad(rg.hypot)(3.0, 4.0)) == pytest.approx((0.6, 0.8), abs=1e-8)
    assert tuple(rg.grad(rg.hypot)(0.0, 0.0)) == (0.0, 0.0)


def test_ends() -> None:
    assert (rg.tanh(40.0), rg.tanh(-2e9)) == (1.0, -1.0)
    assert (rg.erf(100.0), rg.erf(-100.0), rg.erf(0.0)) == (1.0, -1.0, 0.0)
    assert (rg.cbrt(0.0), rg.grad(rg.cbrt, "x")(0.0)) == (0.0, 0.0)
    assert (rg.asin(1.0), rg.acos(1.0)) == (pytest.approx(1.5707963267), 0.0)
    assert (rg.grad(rg.asin, "x")(1.0), rg.grad(rg.acos, "x")(-1.0)) == (0.0, 0.0)
    for f, x in ((rg.asin, 1.5), (rg.log2, 0.0), (rg.log1p, -1.0), (rg.sinh, 100.0)):
        with pytest.raises(rg.RetrogradError) as trapped:
            f(x)
        assert trapped.value.code.startswith("RG04")


@reversible
def layer(ys: Array[fixed, "m"], w: Array[fixed, "m", "n"], xs: Array[fixed, "n"]) -> None:
    ys += rg.tanh(w @ xs)


def test_arrays_are_taken_element_by_element() -> None:
    w, xs = np.array([[0.1, 0.2, 0.3], [0.4, -0.5, 0.6]]), np.array([1.0, -2.0, 3.0])
    out = layer(np.zeros(2), w, xs)
    assert out.ys == pytest.approx(np.tanh(w @ xs), abs=1e-8)
    slopes = (1 - np.tanh(w @ xs) ** 2)[:, None] * w
    assert np.asarray(rg.jacobian(layer, "xs", "ys")(np.zeros(2), w, xs)) == pytest.approx(slopes, abs=1e-8)
    assert (~layer)(*out).ys.tolist() == [0.0, 0.0]
