"""Arrays of words <-> arrays of real numbers, without memory of where a number came from.

    fixed:   value = word / 2^F,  word in two's complement
    lognum:  value = ±2^(log / 2^F),  the sign in the top bit of the word

A float64 has 53 bits and a word may have 64, so words → numbers rounds. `retrograd.values.exact` keeps the words beside the numbers.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Format

#: the two kinds of words that stand for real numbers
RealKind = Literal["fixed", "lognum"]
Rounding = Literal["nearest", "floor"]
Words = NDArray[np.uint64]


def signed(words: ArrayLike, width: int) -> NDArray[np.int64]:
    """The low `width` bits as signed integers."""
    array: NDArray[Any] = np.asarray(words).astype(np.uint64, copy=False)
    if width == 64:
        return array.view(np.int64)
    up = np.uint64(64 - width)
    return (array << up).view(np.int64) >> np.int64(64 - width)


def nearest_reals(words: ArrayLike, kind: RealKind, format: Format) -> NDArray[np.float64]:
    """The float64s nearest to word / 2^F, or to ±2^(log / 2^F); beyond the range of floats an infinity or 0."""
    if kind == "fixed":
        reals: NDArray[np.float64] = signed(words, format.width) * np.float64(2.0**-format.frac)
        return reals
    array = np.asarray(words).astype(np.uint64)
    log = signed(array, format.width - 1).astype(np.float64) / 2.0**format.frac
    with np.errstate(over="ignore", under="ignore"):
        size = np.exp2(log)
    return np.where((array & np.uint64(format.sign)) != 0, -size, size)


# ---------------------------------------------------------------------- numbers to words


def fixed_words(reals: NDArray[Any], w: Format, rounding: Rounding = "nearest") -> Words:
    """round(value * 2^F), ties to even, or floored. Raises InputError RG0601, RG0602 naming the first element that has no word."""
    # Scaling by a power of two is exact, or overflows to an infinity that the range check finds.
    with np.errstate(over="ignore"):
        scaled = np.asarray(reals * reals.dtype.type(2.0**w.frac))
    (np.rint if rounding == "nearest" else np.floor)(scaled, out=scaled)
    low, high = -float(w.sign), float(w.sign)
    # Two passes instead of four: a NaN fails both comparisons.
    if scaled.size and not (
        np.minimum.reduce(scaled, axis=None) >= low and np.maximum.reduce(scaled, axis=None) < high
    ):
        at = _first(np.isnan(reals))
        if at is not None:
            raise fail("RG0602", "NaN is not a number", at)
        at = _first((scaled < low) | (scaled >= high))
        raise fail("RG0601", f"{reals[at]!s} does not fit {w}", at or ())
    return _masked(scaled, low, high)


def lognum_words(reals: NDArray[Any], w: Format) -> Words:
    """The sign bit over round(log2|value| * 2^F).

    Raises InputError RG0601, RG0602, RG0411 naming the first element that has no word.
    """
    at = _first(np.isnan(reals))
    if at is not None:
        raise fail("RG0602", "NaN is not a number", at)
    at = _first(reals == 0)
    if at is not None:
        raise fail("RG0411", "zero has no lognum", at)
    scaled = np.rint(np.log2(np.abs(reals)) * 2.0**w.frac)
    high = float(w.sign // 2)
    at = _first((scaled < -high) | (scaled >= high))
    if at is not None:
        raise fail("RG0601", f"{reals[at]!s} does not fit a lognum of {w}", at)
    sign = np.where(reals < 0, np.uint64(w.sign), np.uint64(0))
    return _masked(scaled, -high, high) | sign


def integer_words(integers: NDArray[Any], w: Format) -> Words:
    """integer * 2^F, exactly. Raises InputError RG0601."""
    most = (w.sign - 1) >> w.frac
    # Compared as Python's integers, since NumPy has no type that holds both int64 and uint64.
    if integers.size and not (-most - 1 <= int(integers.min()) and int(integers.max()) <= most):
        outside = (integers > most) if int(integers.max()) > most else np.zeros(integers.shape, dtype=bool)
        if int(integers.min()) < -most - 1:
            outside = outside | (integers < -most - 1)
        at = _first(outside) or ()
        raise fail("RG0601", f"{integers[at]!s} does not fit {w}", at)
    return (integers.astype(np.int64) << np.int64(w.frac)).view(np.uint64) & np.uint64(w.mask)


def fail(code: str, message: str, index: tuple[int, ...]) -> InputError:
    """The error about one element of an array."""
    where = "" if not index else f"element {index[0] if len(index) == 1 else index}: "
    return InputError(Diagnostic(code, where + message))


def _first(wrong: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """The index of the first True."""
    if not wrong.any():
        return None
    return tuple(int(i) for i in np.argwhere(wrong)[0])


def _masked(scaled: NDArray[np.float64], low: float, high: float) -> Words:
    """Integral floats in [low, high) as two's complement of high − low words."""
    words = scaled.astype(np.int64).view(np.uint64)
    mask = int(high) - int(low) - 1
    return words if mask == (1 << 64) - 1 else words & np.uint64(mask)
