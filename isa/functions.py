"""Exponential, logarithm, angles and lognumbers, as expression trees of integer operations.

One method serves them all. The argument is reduced, exactly or to more bits than a word holds, to a table
index and a small remainder d in units of 2^-(W+K). Since d is small, K bits more than a word of fraction fit.
The table's entry is split into a high word and K further bits, and a Taylor series in d corrects it. A series
ends where its next term is below the last of those bits. The result is rounded once. The error before
rounding is therefore a few units of 2^-(W-2) relative to 1. All arithmetic is adds, shifts, products and (for
tan and atan) a quotient, so it is bit-identical on every backend.

W: width; F: fraction bits; K: index bits. The functions exist for formats with 2 <= F <= W-2; in others
their guards always trap. Measured errors: docs/reference/numbers.md. Method: table look-up with correction, as in
P. T. P. Tang, Table-driven implementation of the exponential function, ACM TOMS 15 (1989).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import factorial
from typing import NamedTuple, ParamSpec, TypeVar, cast

from retrograd.isa import constants as exact
from retrograd.isa.effects import Effects, Exchange, Update, involution
from retrograd.isa.entries import a, b, d
from retrograd.isa.expr import (
    ONE,
    ZERO,
    Expr,
    const,
    div_shift,
    high_word,
    look_up,
    mul_round,
    mul_shift,
    place,
    select,
)
from retrograd.isa.words import Format


def available(w: Format) -> bool:
    """Whether the format has room for the functions: some fraction, and ±1."""
    return 2 <= w.frac <= w.width - 2


def index_bits(w: Format) -> int:
    """K, the bits of a table's index."""
    return min(exact.BITS, w.frac - 2, w.width // 2)


T = TypeVar("T", bound=Expr | tuple[Expr, ...])
P = ParamSpec("P")


def elementary(absent: T) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates a function of words and, last, a format: its trees are kept, and are `absent` in formats without room.

    In a symbolic format, whose width is no int, each tree is an input under a name of its own: the function has a name and no formula.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        def trees(*args: P.args, **kwargs: P.kwargs) -> T:
            w = args[-1]
            assert isinstance(w, Format)
            if not available(w):
                return absent
            if isinstance(w.width, int):
                return function(*args, **kwargs)
            name = f"{function.__name__}{args[:-1]}"
            names = [place(f"{name}.{index}") for index in range(len(absent) if isinstance(absent, tuple) else 1)]
            return cast("T", names[0] if isinstance(absent, Expr) else (getattr(absent, "_make", tuple))(names))

        return cast("Callable[P, T]", cache(trees))

    return decorate


def is_opaque(name: str) -> bool:
    """Whether an input stands for a tree of a function in a symbolic format."""
    return "(" in name


# ------------------------------------------------------------------ constants in words


def to_places(value: int, places: int) -> int:
    """value / 2^128 in units of 2^-places, to nearest."""
    drop = exact.PLACES - places
    return (value + (1 << (drop - 1))) >> drop


def _rational(value: Fraction, places: int) -> Expr:
    return const(round(value * (1 << places)))


def entries(table: tuple[int, ...], w: Format, *, middle: bool = False) -> list[int]:
    """The 2^K entries that the format uses of a table of 2^6 (and of its far end, if it has one)."""
    step = 1 << (exact.BITS - index_bits(w))
    return list(table[step // 2 if middle else 0 :: step])


class Split(NamedTuple):
    """A table's entry in two words: high in units of 2^-places, low in units of the remainder."""

    high: Expr
    low: Expr


def split(index: Expr, values: list[int], places: int, unit: int) -> Split:
    """Entries (in units of 2^-128) as high·2^-places + low·2^-unit, 0 <= low."""
    highs = [v >> (exact.PLACES - places) for v in values]
    lows = [to_places(v, unit) - (h << (unit - places)) for v, h in zip(values, highs, strict=True)]
    return Split(look_up(index, highs), look_up(index, lows))


def round_off(x: Expr, bits: int, early: Expr | None = None) -> Expr:
    """(x + early) / 2^bits to nearest, ties up; x + early + half must not overflow. `early` is computed before x: half is added to it."""
    if bits == 0:
        return x if early is None else early + x
    half = 1 << (bits - 1)
    return (x + half if early is None else early + half + x).sar(bits)


def horner(coefficients: list[Fraction], x: Expr, unit: int, places: int) -> Expr:
    """Σ cᵢ xⁱ in units of 2^-places, for x in units of 2^-unit."""
    total = _rational(coefficients[-1], places)
    for c in reversed(coefficients[:-1]):
        total = _rational(c, places) + mul_shift(x, total, unit)
    return total


def series_terms(bound: Fraction, coefficient: Callable[[int], Fraction], small: Fraction) -> list[Fraction]:
    """c₀, c₁ … up to where the next cₙ·boundⁿ is below `small`."""
    out = [coefficient(0)]
    while abs(coefficient(len(out))) * bound ** len(out) >= small:
        out.append(coefficient(len(out)))
    return out


# ------------------------------------------------------------------ reduction


class Reduced(NamedTuple):
    """A number as segment + remainder: `segment` counts steps of 2^-K, `rest` is signed, in 2^-(W+K)."""

    segment: Expr
    rest: Expr


def _segments(high: Expr, low: Expr, w: Format) -> Reduced:
    """(high, low) in units of 2^-K and 2^-(W+K), low unsigned, with the segment rounded to nearest."""
    return Reduced(high + low.shr(w.width - 1), low)


def reduce_product(x: Expr, constant: int, extra: int, w: Format) -> Reduced:
    """x / 2^F · constant, in segments of 2^-(K+extra) and a remainder in units of 2^-(W+K+extra).

    The constant is taken in two words, the first as large as a word holds, so that the remainder is within a few
    units of the exact product for every x; the carry of the first word goes to the segment.
    """
    width, k = w.width, index_bits(w) + extra
    # As many places as leave the first word below 2^(W-1), then W-2 more.
    first_places = width - 1 - max(0, constant.bit_length() - exact.PLACES)
    first_places += max(0, exact.PLACES - constant.bit_length())
    first = constant >> (exact.PLACES - first_places)
    rest = constant - (first << (exact.PLACES - first_places))
    second = rest >> (exact.PLACES - first_places - (width - 2))
    shift = first_places + w.frac - width - k
    low = mul_shift(x, first, shift)
    high = mul_shift(x, first, shift + width)
    more = mul_shift(x, second, shift + width - 2)
    total = low + more
    return _segments(high + more.sar(width - 1) + total.ltu(more), total, w)


def _reduce_word(x: Expr, w: Format) -> Reduced:
    """x / 2^F itself, exactly, in segments of 2^-K."""
    gap = w.frac - index_bits(w)
    return _segments(x.sar(gap), x << (w.width - gap), w)


# ------------------------------------------------------------------ exponential


class Power(NamedTuple):
    """2^exponent · mantissa / 2^(W-1), the mantissa unsigned, from a little below 2^(W-1) to 2^W."""

    mantissa: Expr
    exponent: Expr


def _power_of_two(y: Reduced, w: Format) -> Power:
    """2^y."""
    width, k = w.width, index_bits(w)
    unit = width + k
    ln2 = Fraction(exact.LN_2, 1 << exact.PLACES)
    bound = Fraction(1, 2 << k)
    # 2^d − 1 = d·(ln2 + d·ln2²/2 + …), |d| <= 2^-(K+1)
    series = series_terms(bound, lambda n: ln2 ** (n + 1) / factorial(n + 1), Fraction(1, 1 << (width - 1)))
    p = mul_shift(y.rest, horner(series, y.rest, unit, width - 2), width - 2)
    entry = split(y.segment & ((1 << k) - 1), entries(exact.EXP2, w), width - 2, unit - 1)
    # In units of 2^-(W+K-1): the product may reach 0.69·2^-K, a bit more than 2^-(W+K) leaves room for.
    correction = mul_shift(entry.high, p, width - 1) + entry.low
    return Power((entry.high << 1) + round_off(correction, k), y.segment.sar(k))


def _scale(p: Power, w: Format) -> tuple[Expr, Expr]:
    """(the word nearest to the power, 1 if it fits): tiny ones round to 0."""
    down = const(w.width - 1 - w.frac) - p.exponent
    rounded = (p.mantissa.shr(down - 1) + 1).shr(1)
    value = select(down.eq(0), p.mantissa, select(down.ltu(w.width + 1), rounded, ZERO))
    return value, down.ge(0) & value.ge(0)


@elementary((ZERO, ZERO))
def exp(x: Expr, w: Format) -> tuple[Expr, Expr]:
    """(e^x, 1 if it fits)."""
    return _scale(_power_of_two(reduce_product(x, exact.LOG2_E, 0, w), w), w)


# ------------------------------------------------------------------ logarithm


def _log_places(w: Format) -> int:
    """Fraction bits that leave room for any exponent."""
    return w.width - w.width.bit_length() - 1


class _Normalised(NamedTuple):
    """word · 2^exponent, the top bit of the word set (unless the number is 0)."""

    word: Expr
    exponent: Expr


def normalise(x: Expr, w: Format) -> _Normalised:
    """x unsigned = word · 2^exponent, by shifts of W/2, W/4 … 1."""
    shift, count = w.width // 2, ZERO
    while shift:
        short = x.ltu(1 << (w.width - shift))
        x, count = select(short, x << shift, x), count + select(short, shift, 0)
        shift //= 2
    return _Normalised(x, -count)


def _log2(v: _Normalised, w: Format) -> Expr:
    """log2 of v.word · 2^v.exponent, in units of 2^-`_log_places`."""
    width, k, places = w.width, index_bits(w), _log_places(w)
    # Beyond F + 12 places the argument is cut: neighbours that differ then differ by more than the
    # arithmetic's own error, which makes the function monotone.
    cut = max(0, width - 2 - (w.frac + 12))
    m = v.word.shr(1) & -(1 << cut)
    index = v.word.shr(width - 1 - k)
    reciprocals = entries(exact.RECIPROCAL, w, middle=True)
    c = look_up(index, [x >> (exact.PLACES - (width - 2)) for x in reciprocals])
    logs = [to_places(x, places) for x in entries(exact.LOG2_RECIPROCAL, w, middle=True)]
    r = mul_shift(m, c, width - 2) - (1 << (width - 2))
    # ln(1 + r) = r·(1 − r/2 + r²/3 − …); r is at most half a segment and the rounding of the 12 places of c
    small = Fraction(1, 1 << min(width - 2, w.frac + 18))
    series = series_terms(Fraction(1, 2 << k) + Fraction(1, 1 << 11), lambda n: Fraction((-1) ** n, n + 1), small)
    log1p = mul_shift(r, horner(series, r, width - 2, width - 3), width - 3)
    part = mul_shift(log1p, to_places(exact.LOG2_E, width - 2), 2 * width - 4 - places)
    return ((v.exponent + (width - 1)) << places) + look_up(index, logs) + part


@elementary((ZERO, ZERO))
def log(x: Expr, w: Format) -> tuple[Expr, Expr]:
    """(ln x, 1 if it fits), for x > 0."""
    v = normalise(x, w)
    log2 = _log2(_Normalised(v.word, v.exponent - w.frac), w)
    places = _log_places(w)
    # ln 2 < 1, so the product cannot leave the word; its rounding is the only one but the last.
    return rescale(mul_shift(log2, to_places(exact.LN_2, w.width - 1), w.width - 1), places, w)


def rescale(x: Expr, places: int, w: Format) -> tuple[Expr, Expr]:
    """(x from units of 2^-places to 2^-F, to nearest; 1 if it fits)."""
    if places >= w.frac:
        return round_off(x, places - w.frac), ONE
    up = w.frac - places
    return x << up, (x << up).sar(up).eq(x)


# ------------------------------------------------------------------ lognumbers


def log_part(x: Expr) -> Expr:
    """log2|x| of a lognum: the word without its sign bit, signed."""
    return (x << 1).sar(1)


def _lognum(sign: Expr, log2: Expr, w: Format) -> Expr:
    """A lognum from a sign (its top bit) and log2|x|."""
    return (sign & w.sign) | (log2 & (w.mask ^ w.sign))


@elementary((ZERO, ZERO))
def lognum_to_fixed(x: Expr, w: Format) -> tuple[Expr, Expr]:
    """(±2^log2|x|, 1 if it fits)."""
    value, fits = _scale(_power_of_two(_reduce_word(log_part(x), w), w), w)
    return select(x.lt(0), -value, value), fits


@elementary((ZERO, ZERO))
def fixed_to_lognum(x: Expr, w: Format) -> tuple[Expr, Expr]:
    """(the lognum of x, 1 if it fits), for x != 0."""
    v = normalise(select(x.lt(0), -x, x), w)
    log2, fits = rescale(_log2(_Normalised(v.word, v.exponent - w.frac), w), _log_places(w), w)
    return _lognum(x, log2, w), fits & log_part(log2).eq(log2)


@elementary(ZERO)
def lognum_to_log(x: Expr, w: Format) -> Expr:
    """ln|x| = ln 2 · log2|x|. Computed as log2|x| − (1 − ln 2)·log2|x|, since 1 − ln 2 has one place more than ln 2 in a word. Error: at most 0.63 units."""
    log2 = log_part(x)
    return log2 - mul_round(log2, (1 << w.width) - to_places(exact.LN_2, w.width), w.width)


@elementary((ZERO, ZERO))
def log_to_lognum(x: Expr, w: Format) -> tuple[Expr, Expr]:
    """(the lognum e^x, 1 if it fits): log2 = x + (log2 e − 1)·x, within 0.59 units for each x whose exponential fits."""
    log2 = x + mul_round(x, to_places(exact.LOG2_E, w.width) - (1 << w.width), w.width)
    return _lognum(ZERO, log2, w), log_part(x).eq(x) & log_part(log2).eq(log2)


@elementary((ZERO, ZERO))
def lognum_power(x: Expr, y: Expr, w: Format) -> tuple[Expr, Expr]:
    """(x^y as a lognum, 1 if it fits), for a lognum x > 0 and a fixed y: log2 = y · log2 x, to nearest."""
    log2 = mul_round(log_part(x), y, w.frac)
    return _lognum(ZERO, log2, w), high_word(log2, w).eq(log2.sar(w.width - 1)) & log_part(log2).eq(log2)


@elementary((ZERO, ZERO, ZERO))
def lognum_sum(x: Expr, y: Expr, w: Format) -> tuple[Expr, Expr, Expr]:
    """(x + y as a lognum, 1 if it fits, 1 if it is not zero).

    log2|x + y| = max + log2(1 ± 2^-d), d = |log2|x| − log2|y||. Where signs differ and d is small, 1 − 2^-d
    has lost its leading bits: there it is computed as d·ln2·(1 − d·ln2/2 + …), from d, which is exact.
    """
    width, k = w.width, index_bits(w)
    lx, ly = log_part(x), log_part(y)
    below = lx.lt(ly)
    top = select(below, ly, lx)
    d = top - select(below, lx, ly)
    differ = ((x ^ y) & w.sign).ne(0)

    p = _power_of_two(_reduce_word(-d, w), w)
    down = -p.exponent
    u = select(down.ltu(width - 1), p.mantissa.shr(down + 1), ZERO)
    one = const(1 << (width - 2))
    plain = select(differ, one - u, one + u)

    # (1 − e^-v)/v·ln2 with v = d·ln2 < 2^-K, times d
    ln2 = Fraction(exact.LN_2, 1 << exact.PLACES)
    small = Fraction(1, 1 << min(width - 2, w.frac + 18))
    series = series_terms(Fraction(1, 1 << k), lambda n: (-1) ** n * ln2 ** (n + 1) / factorial(n + 1), small)
    slope = horner(series, d, w.frac, width - 2)
    scaled = normalise(d, w)
    near = differ & d.ltu(1 << (w.frac - k))
    magnitude = select(near, mul_shift(scaled.word.shr(1), slope, width - 2), plain)
    exponent = select(near, scaled.exponent + (1 - w.frac), 2 - width)

    v = normalise(magnitude, w)
    rest, small_fits = rescale(_log2(_Normalised(v.word, v.exponent + exponent), w), _log_places(w), w)
    total = top + rest
    sign = select(below, y, x)
    fits = small_fits & log_part(total).eq(total)
    return _lognum(sign, total, w), fits, (differ & d.eq(0)).eq(0)


# ------------------------------------------------------------------ angles


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


def rotate(w: Format) -> Effects:
    """(d, a) := the vector (d, a) rotated by b radians: quarter turns, then three lifting shears.

    (I. Daubechies, W. Sweldens, Factoring wavelet transforms into lifting steps, J. Fourier Anal. Appl. 4, 1998.)
    """
    r = rotation(b, w)
    first, second = select(r.first_negated, -d, d), select(r.second_negated, -a, a)
    tilt = shear(r.t, a, tangent_places(w))
    return (
        Exchange("d", "a", when=r.exchanged),
        involution("d", first),
        involution("a", second),
        Update("d", "sub", tilt),
        Update("a", "add", shear(r.s, d, w.width - 1)),
        Update("d", "sub", tilt),
    )
