"""Interpolation between given points, and integrals.

interpolate, spline, interpolate_cubic     of points (xₖ, yₖ), by lines and by a natural cubic spline
trapezoid, simpson                         of samples at equal distances
gauss_legendre                             of a function
"""

from __future__ import annotations

from typing import Any

import numpy as np

import retrograd as rg
from retrograd import Array, Reversible, fixed, reversible


@rg.pure
def _halvings(n: int) -> list[int]:
    """The powers of two below n, the greatest first."""
    return [1 << i for i in reversed(range((n - 1).bit_length()))] if n > 1 else []


@reversible
def _find(k: int, x: fixed, xs: Array[fixed, "n"]) -> None:
    """k += the index with xs[k] ≤ x < xs[k + 1], or n − 2 for x = xs[n − 1].

    Inverse: k −= it. Traps where there is none.
    """
    n = len(xs)
    halvings = _halvings(n - 1)
    with rg.routine() as r:
        found = 0
        right = rg.zeros(len(halvings) + 1, dtype=int)
        for i, half in enumerate(halvings):
            if found + half < n - 1:
                right[i] += 1 if xs[found + half] <= x else 0
            found += half * right[i]
    assert xs[found] <= x
    assert x <= xs[found + 1]
    k += found
    ~r


@reversible
def interpolate(y: fixed, x: fixed, xs: Array[fixed, "n"], ys: Array[fixed, "n"]) -> None:
    """y += the value at x of the lines through (xsₖ, ysₖ), xs ascending, n ≥ 2. Inverse: y −= it.

    The interval is found by halving. Traps (RG0804) where x is not between the first and the last of xs. The
    derivative by x at a point xsₖ is the slope to its right.
    """
    with rg.routine() as r:
        k = 0
        _find(k, x, xs)
        part = (x - xs[k]) / (xs[k + 1] - xs[k])
    y += ys[k] + (ys[k + 1] - ys[k]) * part
    ~r


@reversible
def spline(m: Array[fixed, "n"], xs: Array[fixed, "n"], ys: Array[fixed, "n"]) -> None:
    """m += the second derivatives at the points (xsₖ, ysₖ) of their natural cubic spline, xs ascending, n ≥ 2.

    Inverse: m −= them. With hₖ = xsₖ₊₁ − xsₖ: hₖ₋₁ mₖ₋₁ + 2 (hₖ₋₁ + hₖ) mₖ + hₖ mₖ₊₁ = 6 ((ysₖ₊₁ − ysₖ)/hₖ − (ysₖ −
    ysₖ₋₁)/hₖ₋₁), m₀ = mₙ₋₁ = 0, solved by Thomas's elimination, which needs no pivots. Traps (RG0804) where xs do not
    ascend.
    """
    n = len(xs)
    with rg.routine() as r:
        h, slope = rg.zeros(n), rg.zeros(n)
        for k in range(n - 1):
            h[k] += xs[k + 1] - xs[k]
            assert h[k] > 0
            slope[k] += (ys[k + 1] - ys[k]) / h[k]
        above, rhs, found = rg.zeros(n), rg.zeros(n), rg.zeros(n)
        for k in range(1, n - 1):
            with rg.routine() as pivot:
                diagonal = 2 * (h[k - 1] + h[k]) - h[k - 1] * above[k - 1]
            above[k] += h[k] / diagonal
            rhs[k] += (6 * (slope[k] - slope[k - 1]) - h[k - 1] * rhs[k - 1]) / diagonal
            ~pivot
        for k in range(n - 2, 0, -1):
            found[k] += rhs[k] - above[k] * found[k + 1]
    m += found
    ~r


@reversible
def interpolate_cubic(y: fixed, x: fixed, xs: Array[fixed, "n"], ys: Array[fixed, "n"], m: Array[fixed, "n"]) -> None:
    """y += the value at x of the cubics through (xsₖ, ysₖ) with the second derivatives m, as `spline` finds them.

    Inverse: y −= it. With h = xsₖ₊₁ − xsₖ and q = (x − xsₖ)/h = 1 − p: p ysₖ + q ysₖ₊₁ + ((p³ − p) mₖ + (q³ − q)
    mₖ₊₁) h²/6. Traps (RG0804) where x is not between the first and the last of xs.
    """
    with rg.routine() as r:
        k = 0
        _find(k, x, xs)
        h = xs[k + 1] - xs[k]
        q = (x - xs[k]) / h
        p = 1 - q
        bend = ((p * p * p - p) * m[k] + (q * q * q - q) * m[k + 1]) * h * h / 6
    y += p * ys[k] + q * ys[k + 1] + bend
    ~r


@reversible
def trapezoid(out: fixed, ys: Array[fixed, "n"], dx: fixed) -> None:
    """out += dx (½ y₀ + y₁ + … + yₙ₋₂ + ½ yₙ₋₁). Inverse: out −= it. n ≥ 2. Error of an integral: O(dx²)."""
    out += (rg.sum(ys) - (ys[0] + ys[-1]) / 2) * dx


@reversible
def simpson(out: fixed, ys: Array[fixed, "n"], dx: fixed) -> None:
    """out += dx/3 (y₀ + 4y₁ + 2y₂ + 4y₃ + … + yₙ₋₁), n odd, n ≥ 3; else it traps.

    Inverse: out −= it. Error of an integral: O(dx⁴).
    """
    assert len(ys) % 2 == 1
    assert len(ys) > 1
    out += (2 * rg.sum(ys[::2]) - ys[0] - ys[-1] + 4 * rg.sum(ys[1::2])) * dx / 3


@rg.pure
def _nodes(n: int) -> Any:
    """Nodes and weights of Gauss–Legendre quadrature on [−1, 1]."""
    return np.polynomial.legendre.leggauss(n)


@reversible
def gauss_legendre(f: Reversible, out: fixed, a: fixed, b: fixed, nodes: rg.static = 8) -> None:
    """out += ∫ₐᵇ f(x) dx, by Gauss–Legendre quadrature: exact for polynomials below the degree 2·`nodes`.

    Inverse: out −= it. f(y, x) adds f(x) to y.
    """
    places, weights = _nodes(nodes)
    with rg.routine() as r:
        half = (b - a) / 2
        middle = a + half
    for place, weight in zip(places, weights, strict=True):
        with rg.routine() as value:
            y = fixed(0)
            x = middle + half * place
            f(y, x)
        out += y * half * weight
        ~value
    ~r
