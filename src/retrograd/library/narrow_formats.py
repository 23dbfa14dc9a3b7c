"""Forms of the elementary functions for formats with few bits before the point.

    form("cbrt", w)  →  the functional function that computes ∛x in w, or None where `elementary` has the form

In a format Q I.F numbers lie in [−M, M), M = 2^(I−1). A form of `elementary` may leave this range on the way to a result that fits: e^|x| of
sinh, 1 + x of log1p, ln x of ∛x. The forms here stay within the range of their argument and their result. They cost more steps, so other
formats keep the forms of `elementary`. −|x| stands in place of |x|, which does not fit where x = −M. Numbers that are too small for a logarithm
are multiplied by powers of two first, which is exact.

The logarithm of the instruction set is less exact in these formats (docs/reference/numbers.md): a step of Newton's method mends that. The values of
Newton's method do not depend on its first value, so neither does their derivative.

Errors: docs/language.md; tests/library/test_narrow_formats.py measures them.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import fixed
from retrograd.compiler.language.intrinsics import NoForm
from retrograd.isa.words import Format

__all__ = ["form"]

LN2, PER_LN10, LN_OF_4_THIRDS, THIRD = math.log(2), 1 / math.log(10), math.log(4 / 3), 1 / 3
HALF_E, HALF_E_LESS_1, ROOT_E_LESS_1 = math.e / 2, math.e / 2 - 1, math.sqrt(math.e) - 1
ERF_1_5, ERF_3, TWO_OVER_ROOT_PI = math.erf(1.5), math.erf(3), 2 / math.sqrt(math.pi)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
(N0, N1, N2, N3, N4, N5), (H0, H1, H2, H3, H4, H5) = NODES[6:].tolist(), (WEIGHTS[6:] / 2).tolist()


def form(name: str, w: Format) -> Any:
    """The form of a function for a format; None where the form of `elementary` serves. Raises NoForm."""
    before = w.width - w.frac
    if before == 1 and name != "hypot":
        raise NoForm(name, w)
    # Whether the logarithm of the least number may not fit.
    short = before <= 4 or w.frac * LN2 >= 2 ** (before - 1)
    match name:
        case "tanh" if before == 2:
            return tanh
        case "sinh" | "cosh" | "expm1" if before <= 4:
            return _exponentials(before, w.frac)[name]
        case "log1p" | "log2" if before <= 4:
            return _logarithm(before, w.frac, name)
        case "log10" if short:
            return _logarithm(before, w.frac, "log10")
        case "cbrt" if short:
            return _cbrt(w.frac)
        case "asin" | "acos" if before == 2:
            return {"asin": asin, "acos": acos}[name]
        case "hypot" if before <= 2:
            return hypot if before == 2 else _hypot_below_1(w.frac)
        case "erf" if before <= 6:
            return _erf(before)
    return None


# ------------------------------------------------------------------ logarithms

#: exponents of the powers of two by which small numbers are multiplied, one after the other: numbers below 2^-k by 2^k
STAGES = (32, 16, 8, 4, 2)


@cache
def _logarithm(before: int, frac: int, name: str) -> Any:
    """log_b x = log_b(x 2^k) − k log_b 2; of log2 the logarithm of a power of two up to 1 is exact."""
    per_ln = {"log1p": 1.0, "log2": 1 / LN2, "log10": PER_LN10}[name]
    two = LN2 * per_ln
    use32, use16, use8, use4, use2 = (k <= frac and k * two < 2 ** (before - 1) for k in STAGES)
    large, shrink, grow = before > 2, 2.0 ** (2 - before), (before - 2) * two
    # A logarithm at the end of the format is that of a power of two, and has no room for an error.
    to_end = frac >= 2 ** (before - 1)
    use1, plus = name == "log2", name == "log1p"
    t32, t16, t8, t4, t2 = (2.0**-k for k in STAGES)
    s32, s16, s8, s4, s2, s1 = (-k * two for k in (*STAGES, 1))

    @rg.functional
    def logarithm(x: fixed) -> fixed:
        """y = ln x as the instruction gives it, and y + (x − eʸ)/x, for x ≤ 1: greater numbers are divided by powers of two, too. At 1 it is x − 1 where an error has no room.

        ln(1 + x) is ln((1 + x)/2) + ln 2 where 1 + x may not fit.
        """
        o, r = (0.5 + x * 0.5, LN2) if plus and x > 0.5 else (1 + x if plus else x, 0.0)
        if o <= 0:
            return rg.log(o)
        p, q = (o * shrink, r + grow) if large and o >= 2.0 else (o, r)
        m, n = (p * 0.5, q - s1) if p > 1 else (p, q)
        a, s = (m / t32, n + s32) if use32 and m <= t32 else (m, n)
        b, t = (a / t16, s + s16) if use16 and a <= t16 else (a, s)
        c, u = (b / t8, t + s8) if use8 and b <= t8 else (b, t)
        d, v = (c / t4, u + s4) if use4 and c <= t4 else (c, u)
        e, w = (d / t2, v + s2) if use2 and d <= t2 else (d, v)
        f, y = (e / 0.5, w + s1) if use1 and e <= 0.5 else (e, w)
        g, z = (f / 0.5, y + s1) if use1 and f <= 0.5 else (f, y)
        first = rg.log(g)
        found = g - 1 if to_end and g == 1 else first + (g - rg.exp(first)) / g
        return found + z if plus else found * per_ln + z

    return logarithm


# ------------------------------------------------------------------ exponentials


@rg.functional
def tanh(x: fixed) -> fixed:
    """(t − 1)/(−1 − t), t = (e^−|x|)²: −2 fits, which 1 + t does not where it is 2."""
    root = rg.exp(x) if x < 0 else rg.exp(-x)
    t = root * root
    value = (t - 1) / (-1 - t)
    return -value if x < 0 else value


@cache
def _exponentials(before: int, frac: int) -> dict[str, Any]:
    """sinh, cosh and eˣ − 1. e^`most` fits. Where a sum p + q is 2^(I − 1) or more by its error alone, p loses `off`, which keeps its derivative."""
    most, least, off = 0.6875 * (before - 1), -(2.0 ** (before - 1)), 3 * 2.0**-frac

    @rg.functional
    def sinh(x: fixed) -> fixed:
        """(eˣ − e⁻ˣ)/2, or p − e⁻ˣ/2 + p (e/2 − 1) with p = e^(x − 1) where eˣ may not fit."""
        if x <= most and x >= -most:
            return (rg.exp(x) - rg.exp(-x)) * 0.5
        size = x if x > 0 else -x
        part = rg.exp(size - 1)
        p, q = part - rg.exp(-size) * 0.5, part * HALF_E_LESS_1
        r = p if p + least < -q else p - off
        return r + q if x > 0 else -r - q

    @rg.functional
    def cosh(x: fixed) -> fixed:
        """(eˣ + e⁻ˣ)/2, or p e/2 + e⁻ˣ/2 with p = e^(x − 1) where eˣ may not fit."""
        if x <= most and x >= -most:
            return rg.exp(x) * 0.5 + rg.exp(-x) * 0.5
        size = x if x > 0 else -x
        p, q = rg.exp(size - 1) * HALF_E, rg.exp(-size) * 0.5
        return p + q if p + least < -q else p - off + q

    @rg.functional
    def expm1(x: fixed) -> fixed:
        """eˣ − 1, or p + (p (√e − 1) − 1) with p = e^(x − ½) where eˣ may not fit."""
        if x < most:
            return rg.exp(x) - 1
        p = rg.exp(x - 0.5)
        q = p * ROOT_E_LESS_1 - 1
        return p + q if p + least < -q else p - off + q

    return {"sinh": sinh, "cosh": cosh, "expm1": expm1}


# ------------------------------------------------------------------ angles


@rg.functional
def other(x: fixed) -> fixed:
    """1.5 √(1 − x²), by a root below 1: the derivative of a root divides by twice the root, which has to fit."""
    square = 1 - x * x
    root = rg.sqrt(square * 0.5625) if square > 0.75 else rg.sqrt(square)
    return root + root if square > 0.75 else root * 1.5


@rg.functional
def asin(x: fixed) -> fixed:
    """The angle of a vector of length 3/2, since `atan2` has derivatives that fit if the length is above 1."""
    return rg.atan2(1.5 * x, other(x))


@rg.functional
def acos(x: fixed) -> fixed:
    """The angle of the same vector from the other axis."""
    return rg.atan2(other(x), 1.5 * x)


# ------------------------------------------------------------------ roots


@cache
def _cbrt(frac: int) -> Any:
    use48, use24, use12, use6 = (k <= frac for k in (48, 24, 12, 6))
    t48, t24, t12, t6 = (2.0**-k for k in (48, 24, 12, 6))
    f48, f24, f12, f6 = (2.0 ** -(k // 3) for k in (48, 24, 12, 6))

    @rg.functional
    def cbrt(x: fixed) -> fixed:
        """∛x = ∛(x 2^3k)/2^k: e^(ln|x|/3) with |x| as 4/3 · ¾|x|, and one step of Newton's method. Value and derivative at 0 are 0."""
        if x == 0:
            return rg.sqrt(x)  # the slope that a root has there
        a, p = (x / t48, f48) if use48 and x < t48 and x > -t48 else (x, 1.0)
        b, q = (a / t24, p * f24) if use24 and a < t24 and a > -t24 else (a, p)
        c, r = (b / t12, q * f12) if use12 and b < t12 and b > -t12 else (b, q)
        d, s = (c / t6, r * f6) if use6 and c < t6 and c > -t6 else (c, r)
        e, t = (d / 0.125, s * 0.5) if d < 0.25 and d > -0.25 else (d, s)
        f, u = (e / 0.125, t * 0.5) if e < 0.25 and e > -0.25 else (e, t)
        size = rg.exp((rg.log(f * 0.75 if f > 0 else f * -0.75) + LN_OF_4_THIRDS) * THIRD)
        first = size if f > 0 else -size
        return (first - (first - f / first / first) * THIRD) * u

    return cbrt


@rg.functional
def hypot(x: fixed, y: fixed) -> fixed:
    """|m| √(1 + (n/m)²) with 11/16 of the root, which is below 1: the derivative of a root divides by twice the root, which has to fit."""
    m, n = (x, y) if abs(x) > abs(y) else (y, x)
    if m == 0:
        return rg.sqrt(m)  # 0, with the slope that a root has there
    part = n / m * 0.6875
    return abs(m) * rg.sqrt(part * part + 0.47265625) / 0.6875


@cache
def _hypot_below_1(frac: int) -> Any:
    use32, use16, use8, use4, use2 = (k < frac for k in STAGES)
    t32, t16, t8, t4, t2 = (2.0**-k for k in STAGES)
    b32, b16, b8, b4, b2 = (2.0 ** -(k + 1) for k in STAGES)
    off = 2 * 2.0**-frac

    @rg.functional
    def hypot(x: fixed, y: fixed) -> fixed:
        """√(x² + y²) = √((x 2^k)² + (y 2^k)²)/2^k, k = 0 or so that the greater is between ¼ and ½."""
        if x == 0 and y == 0:
            return rg.sqrt(x)  # 0, with the slope that a root has there
        is32 = use32 and x < b32 and x > -b32 and y < b32 and y > -b32
        a, b = (x / t32, y / t32) if is32 else (x, y)
        is16 = use16 and a < b16 and a > -b16 and b < b16 and b > -b16
        c, d = (a / t16, b / t16) if is16 else (a, b)
        is8 = use8 and c < b8 and c > -b8 and d < b8 and d > -b8
        e, f = (c / t8, d / t8) if is8 else (c, d)
        is4 = use4 and e < b4 and e > -b4 and f < b4 and f > -b4
        g, h = (e / t4, f / t4) if is4 else (e, f)
        is2 = use2 and g < b2 and g > -b2 and h < b2 and h > -b2
        i, j = (g / t2, h / t2) if is2 else (g, h)
        is1 = i < 0.25 and i > -0.25 and j < 0.25 and j > -0.25
        m, n = (i / 0.5, j / 0.5) if is1 else (i, j)
        square = m * m + n * n
        # 31/64 of the root, so that twice the word fits: see `hypot`. A root that is 1 by its error alone is less by `off`.
        part = rg.sqrt(square * 0.234619140625 if square > 0.21875 else square)
        less = part if part < 0.484375 else part - off
        root = less / 0.484375 if square > 0.21875 else part
        p = root * 0.5 if is1 else root
        q = p * t2 if is2 else p
        r = q * t4 if is4 else q
        s = r * t8 if is8 else r
        t = s * t16 if is16 else s
        return t * t32 if is32 else t

    return hypot


# ------------------------------------------------------------------ the error function


@cache
def _erf(before: int) -> Any:
    near, middling, last = before == 2, before == 3, 5.625 if before == 4 else 6.0

    @rg.functional
    def erf(x: fixed) -> fixed:
        """2/√π ∫₀ˣ e^(−t²) dt, by the quadrature of `elementary` over [−|x|, 0], with e^(−t²) = (e^(−(t/2)²))⁴."""
        size = x if x < 0 else -x
        end = size if near or middling else max(size, -last)
        inner = (0.0, 0.0) if end > -1.5 else (-1.5, ERF_1_5)
        begin, before = inner if near or end > -3.0 else (-3.0, ERF_3)
        span = end - begin
        half = span * 0.5
        middle = begin + half

        def power(t: fixed) -> fixed:
            part = t * 0.5
            root = rg.exp(-part * part)
            square = root * root
            return square * square

        def pair(node: fixed, weight: fixed) -> fixed:
            away = half * node
            return weight * (-power(middle - away) - power(middle + away))  # the sum of two may be 2, which may not fit

        mean = pair(N0, H0) + pair(N1, H1) + pair(N2, H2) + pair(N3, H3) + pair(N4, H4) + pair(N5, H5)
        value = before + mean * span * TWO_OVER_ROOT_PI
        return -value if x < 0 else value

    return erf
