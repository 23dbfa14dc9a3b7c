"""Elementary functions that are no instructions, composed of instructions.

Each is a functional function, so `y += tanh(x)` stands in reversible and in functional programs, and has derivatives of all
orders. *Units* are those of the last place of the format, for Q32.32 and values that fit: docs/language.md. The error of a function is
tested in tests/library/test_elementary.py. Formats with few bits before the point have forms of their own: `narrow_formats`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import fixed
from retrograd.compiler.language.intrinsics import hosted
from retrograd.isa.words import Format

__all__ = [
    "acos", "asin", "cbrt", "cosh", "erf", "exp2", "expm1", "hypot", "log1p", "log2", "log10", "sinh", "tanh",
]  # fmt: skip

LN2, LN10 = math.log(2), math.log(10)
ERF_1_5, ERF_3, TWO_OVER_ROOT_PI = math.erf(1.5), math.erf(3), 2 / math.sqrt(math.pi)
#: nodes and weights of Gauss–Legendre quadrature on [−1, 1], those above 0
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
(N0, N1, N2, N3, N4, N5), (W0, W1, W2, W3, W4, W5) = NODES[6:].tolist(), WEIGHTS[6:].tolist()


def _form(name: str, w: Format) -> Any:
    """The form of a function for a format; None for the one below. Raises NoForm."""
    if w.width - w.frac > 6:
        return None
    from retrograd.library import narrow_formats

    return narrow_formats.form(name, w)


@rg.functional
@hosted("tanh", _form)
def tanh(x: fixed) -> fixed:
    """The hyperbolic tangent, (1 − t)/(1 + t) with t = (e^−|x|)², which never overflows. Error: at most 2 units."""
    root = rg.exp(x) if x < 0 else rg.exp(-x)  # a choice, and not −|x|, which has no second derivative at 0
    t = root * root
    value = (1 - t) / (1 + t)
    return -value if x < 0 else value


@rg.functional
@hosted("sinh", _form)
def sinh(x: fixed) -> fixed:
    """(eˣ − e⁻ˣ)/2. Traps where e^|x| does not fit."""
    return (rg.exp(x) - rg.exp(-x)) / 2


@rg.functional
@hosted("cosh", _form)
def cosh(x: fixed) -> fixed:
    """(eˣ + e⁻ˣ)/2. Traps where e^|x| does not fit."""
    return (rg.exp(x) + rg.exp(-x)) / 2


@rg.functional
@hosted("asin", _form)
def asin(x: fixed) -> fixed:
    """The angle in [−π/2, π/2] whose sine is x; −1 ≤ x ≤ 1, else it traps. The gradient at ±1 is 0, not infinite."""
    return rg.atan2(x, rg.sqrt(1 - x * x))


@rg.functional
@hosted("acos", _form)
def acos(x: fixed) -> fixed:
    """The angle in [0, π] whose cosine is x; −1 ≤ x ≤ 1, else it traps. The gradient at ±1 is 0, not infinite."""
    return rg.atan2(rg.sqrt(1 - x * x), x)


@rg.functional
@hosted("log2", _form)
def log2(x: fixed) -> fixed:
    """ln x / ln 2, x > 0. Error: a unit, and 2⁻³² of the result in Q32.32, where the constant is rounded."""
    return rg.log(x) / LN2


@rg.functional
@hosted("log10", _form)
def log10(x: fixed) -> fixed:
    """ln x / ln 10, x > 0. Error: as that of log2."""
    return rg.log(x) / LN10


@rg.functional
@hosted("exp2", _form)
def exp2(x: fixed) -> fixed:
    """2ˣ, as e^(x ln 2). Error: that of the exponent, x units, times 2ˣ."""
    return rg.exp(x * LN2)


@rg.functional
@hosted("expm1", _form)
def expm1(x: fixed) -> fixed:
    """eˣ − 1. Error: at most that of eˣ: fixed-point numbers are absolute, so nothing cancels."""
    return rg.exp(x) - 1


@rg.functional
@hosted("log1p", _form)
def log1p(x: fixed) -> fixed:
    """ln(1 + x), x > −1. 1 + x is exact."""
    return rg.log(1 + x)


@rg.functional
@hosted("cbrt", _form)
def cbrt(x: fixed) -> fixed:
    """∛x, by e^(ln|x|/3) and, where |x| > 1, one step of Newton's method. The value at 0 is 0, and the derivative there 0; a second derivative traps.

    Error: at most 1.5 units.
    """
    if x == 0:
        return rg.sqrt(x)  # 0, with the slope that a root has there
    size = abs(x)
    first = rg.exp(rg.log(size) / 3)
    value = first - (first - size / first / first) / 3 if size > 1 else first
    return -value if x < 0 else value


@rg.functional
@hosted("hypot", _form)
def hypot(x: fixed, y: fixed) -> fixed:
    """√(x² + y²), as |m| √(1 + (n/m)²) with m the larger in size, so that no square overflows or vanishes.

    Value and derivative at (0, 0) are 0; a second derivative there traps. Error: at most 1 + 1.5 m units.
    """
    m, n = (x, y) if abs(x) > abs(y) else (y, x)
    if m == 0:
        return rg.sqrt(m)  # 0, with the slope that a root has there
    ratio = n / m
    return abs(m) * rg.sqrt(1 + ratio * ratio)


@rg.functional
@hosted("erf", _form)
def erf(x: fixed) -> fixed:
    """2/√π ∫₀ˣ e^(−t²) dt, by Gauss–Legendre quadrature with 12 nodes from 0, 1.5 or 3 on; ±1 beyond |x| = 6.

    Error: at most 6 units in Q32.32, and 10⁻¹⁴ in formats of more places.
    """
    end = min(max(-x, x), 6.0)  # |x| as a choice, which has second derivatives at 0
    begin, before = (0.0, 0.0) if end < 1.5 else (1.5, ERF_1_5) if end < 3 else (3.0, ERF_3)
    half = (end - begin) / 2
    middle = begin + half

    def pair(node: fixed, weight: fixed) -> fixed:
        left, right = middle - half * node, middle + half * node
        return weight * (rg.exp(-left * left) + rg.exp(-right * right))

    mean = pair(N0, W0) + pair(N1, W1) + pair(N2, W2) + pair(N3, W3) + pair(N4, W4) + pair(N5, W5)
    value = before + mean * half * TWO_OVER_ROOT_PI
    return -value if x < 0 else value
