"""Angles as expression trees of integer operations: sine, cosine, atan2, and the parts of a rotation.

The method is that of `functions.py`: an angle is reduced to a table index and a small remainder δ, and the table's entry takes a
correction that is a series in δ.
"""

from __future__ import annotations

from fractions import Fraction
from math import factorial
from typing import NamedTuple

from retrograd.isa import constants as exact
from retrograd.isa.expr import ZERO, Expr, const, div_shift, look_up, mul_round, mul_shift, select
from retrograd.isa.functions import (
    Split,
    elementary,
    entries,
    horner,
    index_bits,
    normalise,
    reduce_product,
    rescale,
    round_off,
    series_terms,
    split,
    to_places,
)
from retrograd.isa.words import Format


class _Wave(NamedTuple):
    """sin and cos as table word + correction in units of 2^-(W+K-1); and the remainder, for tan."""

    sin: Split
    cos: Split
    #: the remainder δ in radians, and δ² in units of 2^-(W-1+2K)
    delta: Expr
    square: Expr
    segment: Expr


def _wave(x: Expr, w: Format, places: int, sines: list[int], cosines: list[int]) -> _Wave:
    """sin and cos of table angle + δ, with table words in units of 2^-places."""
    width, k = w.width, index_bits(w)
    unit = width + k - 1
    y = reduce_product(x, exact.TURNS_PER_RADIAN, 2, w)
    # |δ| <= 2π·2^-(K+3) < 0.79·2^-K
    delta = mul_shift(y.rest, to_places(exact.PI >> 2, width - 1), width - 1)
    square = mul_shift(delta, delta, width - 1)
    square_unit = width - 1 + 2 * k
    bound, small = Fraction(5, 8) / (1 << 2 * k), Fraction(1, 1 << (width + 1))
    # sin δ = δ + δ·δ²·(−1/6 + δ²/120 − …), 1 − cos δ = δ²·(1/2 − δ²/24 + …)
    odd = series_terms(bound, lambda n: Fraction((-1) ** (n + 1), factorial(2 * n + 3)), small)
    even = series_terms(bound, lambda n: Fraction((-1) ** n, factorial(2 * n + 2)), small)
    s = delta + mul_shift(delta, mul_shift(square, horner(odd, square, square_unit, width - 1), width - 1), square_unit)
    v = mul_shift(square, horner(even, square, square_unit, width - 1), width - 1).sar(k)
    index = y.segment & ((1 << k) - 1)
    sine, cosine = split(index, sines, places, unit), split(index, cosines, places, unit)
    return _Wave(
        Split(sine.high, sine.low + mul_shift(cosine.high, s, places) - mul_shift(sine.high, v, places)),
        Split(cosine.high, cosine.low - mul_shift(sine.high, s, places) - mul_shift(cosine.high, v, places)),
        delta,
        square,
        y.segment,
    )


def _sin_of_quadrant(x: Expr, ahead: int, w: Format) -> Expr:
    """sin(x + ahead quarter turns)."""
    k, places = index_bits(w), w.width - 2
    quarter = entries(exact.SIN, w)
    wave = _wave(x, w, places, quarter[:-1], quarter[:0:-1])
    quadrant = wave.segment.shr(k) + ahead
    odd = quadrant & 1
    high = select(odd, wave.cos.high, wave.sin.high)
    low = select(odd, wave.cos.low, wave.sin.low)
    value = high + round_off(low, k + 1)
    signed = select(quadrant & 2, -value, value)
    return round_off(signed, places - w.frac)


@elementary(ZERO)
def sin(x: Expr, w: Format) -> Expr:
    """sin x, x in radians."""
    return _sin_of_quadrant(x, 0, w)


@elementary(ZERO)
def cos(x: Expr, w: Format) -> Expr:
    """cos x, x in radians."""
    return _sin_of_quadrant(x, 1, w)


@elementary((ZERO, ZERO))
def atan2(y: Expr, x: Expr, w: Format) -> tuple[Expr, Expr]:
    """(the angle of (x, y) in (−π, π], 1 if it fits), for (x, y) != (0, 0)."""
    width, k = w.width, index_bits(w)
    ay, ax = select(y.lt(0), -y, y), select(x.lt(0), -x, x)
    steep = ax.ltu(ay)
    big, small = select(steep, ay, ax), select(steep, ax, ay)
    up = -normalise(big, w).exponent
    big, small = (big << up).shr(2), (small << up).shr(2)
    # The nearest table slope c = j/2^K; then tan of the remaining angle is (small − c·big) / (big + c·small).
    j = round_off(div_shift(small, big, k + 1), 1)
    z = div_shift(small - mul_shift(big, j, k), big + mul_shift(small, j, k), width - 2)
    square = mul_shift(z, z, width - 2)
    bound = Fraction(1, 1 << 2 * (k + 1))
    series = series_terms(bound, lambda n: Fraction((-1) ** n, 2 * n + 1), Fraction(1, 1 << (w.frac + 18)))
    rest = mul_shift(z, horner(series, square, width - 2, width - 3), width - 3)
    places = width - 4  # room for ±π, and for the half that rounding adds
    table = [to_places(v, places) for v in entries(exact.ATAN, w)]
    table += [0] * ((2 << k) - len(table))
    first = look_up(j, table) + round_off(rest, 2)
    octant = select(steep, const(to_places(exact.PI >> 1, places)) - first, first)
    turned = select(x.lt(0), const(to_places(exact.PI, places)) - octant, octant)
    return rescale(select(y.lt(0), -turned, turned), places, w)


# ------------------------------------------------------------------ rotation


class Rotation(NamedTuple):
    """A rotation as quarter turns and three shears: t = tan(θ/2) in `tangent_places`, s = sin θ in W−1.

    |θ| is at most an eighth of a turn and half a segment.
    """

    #: 1 where the two words are exchanged, and where each is negated after that
    exchanged: Expr
    first_negated: Expr
    second_negated: Expr
    t: Expr
    s: Expr


def tangent_places(w: Format) -> int:
    """W where tan(θ/2) < 1/2, which coarse segments exceed."""
    return w.width if index_bits(w) >= 3 else w.width - 1


@elementary(Rotation(ZERO, ZERO, ZERO, ZERO, ZERO))
def rotation(x: Expr, w: Format) -> Rotation:
    """The parts of a rotation by x radians. The shears are undone exactly for any rounding of t and s."""
    width, k = w.width, index_bits(w)
    n = 1 << k
    unit = width + k - 1
    quarter = entries(exact.SIN, w)
    # Index j stands for the angle j or, from half way, j − 2^K: an eighth of a turn to either side.
    eighth = entries(exact.TAN_HALF, w)
    before = [j < (n + 1) // 2 for j in range(n)]
    sines = [quarter[j] if near else -quarter[n - j] for j, near in enumerate(before)]
    cosines = [quarter[n - j] if near else quarter[j] for j, near in enumerate(before)]
    tangents = [eighth[j] if near else -eighth[n - j] for j, near in enumerate(before)]
    wave = _wave_for_shears(x, w, sines, cosines)
    index = wave.segment & (n - 1)
    quadrant = (wave.segment + n // 2).shr(k)
    s = wave.sin.high + round_off(wave.sin.low, k)

    # tan(a + b) = tan a + (1 + tan² a)·tan b / (1 − tan a·tan b), with b = δ/2
    half_square = wave.square.sar(2)
    bound, small = Fraction(5, 32) / (1 << 2 * k), Fraction(1, 1 << (width + 1))
    tan_series = series_terms(bound, _tan_coefficient, small)
    half = wave.delta  # δ/2 in units of 2^-(unit+1)
    tan_b = half + mul_shift(
        half,
        mul_shift(
            half_square, horner(tan_series[1:] or [Fraction(0)], half_square, width - 1 + 2 * k, width - 1), width - 1
        ),
        width - 1 + 2 * k,
    )
    places = tangent_places(w)
    tangent = split(index, tangents, places, unit + 1)
    secant = look_up(index, [to_places((1 << exact.PLACES) + (v * v >> exact.PLACES), width - 2) for v in tangents])
    numerator = mul_shift(secant, tan_b, width - 2)
    denominator = const(1 << (width - 2)) - mul_shift(tangent.high, tan_b, places + unit + 1 - (width - 2))
    rest = div_shift(numerator, denominator, width - 2)
    t = tangent.high + round_off(rest, unit + 1 - places, early=tangent.low)
    return Rotation(quadrant & 1, (quadrant + 1).shr(1) & 1, quadrant.shr(1) & 1, t, s)


def _wave_for_shears(x: Expr, w: Format, sines: list[int], cosines: list[int]) -> _Wave:
    """`_wave` with the sine's word in units of 2^-(W-1): below sin(π/4 + a segment), all fit."""
    wave = _wave(x, w, w.width - 2, sines, cosines)
    k = index_bits(w)
    index = wave.segment & ((1 << k) - 1)
    fine = [v >> (exact.PLACES - (w.width - 1)) for v in sines]
    coarse = [v >> (exact.PLACES - (w.width - 2)) for v in sines]
    # The correction is relative to the coarse word, so the difference to the finer word is subtracted from it.
    added = [(f - 2 * c) << k for f, c in zip(fine, coarse, strict=True)]
    return wave._replace(sin=Split(look_up(index, fine), wave.sin.low - look_up(index, added)))


def _tan_coefficient(n: int) -> Fraction:
    """The coefficient of y^(2n+1) in tan y = y + y³/3 + 2y⁵/15 + …, from tan' = 1 + tan²."""
    c = [Fraction(1)]
    for i in range(1, n + 1):
        c.append(sum((c[j] * c[i - 1 - j] for j in range(i)), Fraction(0)) / (2 * i + 1))
    return c[n]


def shear(factor: Expr, x: Expr, places: int) -> Expr:
    """factor·x / 2^places, to nearest with ties up."""
    return mul_round(factor, x, places)
