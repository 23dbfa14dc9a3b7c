"""Multi-word arithmetic: products, quotients and roots of two words, made of operations on one.

    high_word(x, y)        =  ⌊x·y / 2^64⌋
    long_quotient(x, y, p) =  ⌊x·2^p / y⌋ in two words, and 1 where the part behind the point is at least ½
    long_root(x, s)        =  ⌊√(x·2^s) + ½⌋

The functions are written in the part of Python that NumPy scalars, `numba.njit`, numba-cuda and its simulator share, so the code that
tests run is the code that a device runs. `numba_source.py` copies their text in front of the code that calls them.

A word of W bits is an int64, sign-extended. Traps: Numba makes a float of an int64 and a uint64 in one operation, so both sides of
an operator have one type; a quotient of signed words is that of their magnitudes, since −2^63 / −1 does not fit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

S, U = np.int64, np.uint64
#: the sign bit; x ^ MIN orders signed words as unsigned ones
MIN = S(-(1 << 63))
ONES32 = (1 << 32) - 1
U0, U1, U32, U63 = U(0), U(1), U(32), U(63)
UNSIGNED_ONES32 = U((1 << 32) - 1)
#: quotients of doubles are used below 2^50, for divisors below 2^61, so that a remainder fits a word
QUICK_QUOTIENT, QUICK_DIVISOR = 2.0**50, 1 << 61
#: a double in whose last place units are, so that a sum with it is rounded to an integer
UNITS = 1.5 * 2.0**52


def choose(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y."""
    return x if condition else y


def logical_shift(x: Any, k: Any) -> Any:
    """x / 2^k, x unsigned, 0 ≤ k < 64."""
    return S(U(x) >> U(k))


def magnitude(x: Any) -> Any:
    """|x|, unsigned."""
    return U(-x if x < 0 else x)


def high_word(x: Any, y: Any) -> Any:
    """⌊x·y / 2^64⌋, signed: four products of halves (Warren, Hacker's Delight, 8-2)."""
    x0, x1, y0, y1 = x & ONES32, x >> 32, y & ONES32, y >> 32
    middle = x1 * y0 + logical_shift(x0 * y0, 32)
    other = x0 * y1 + (middle & ONES32)
    return x1 * y1 + (middle >> 32) + (other >> 32)


def unsigned_high_word(x: Any, y: Any) -> Any:
    """⌊x·y / 2^64⌋, unsigned."""
    x0, x1, y0, y1 = x & UNSIGNED_ONES32, x >> U32, y & UNSIGNED_ONES32, y >> U32
    middle = x1 * y0 + ((x0 * y0) >> U32)
    other = x0 * y1 + (middle & UNSIGNED_ONES32)
    return x1 * y1 + (middle >> U32) + (other >> U32)


def quotient_digit(high: Any, next_digit: Any, divisor: Any) -> Any:
    """One digit of 32 bits of a quotient: Knuth, TAOCP 2, 4.3.1, algorithm D, step D3; `divisor` ≥ 2^63."""
    d1, d0 = divisor >> U32, divisor & UNSIGNED_ONES32
    digit = high // d1
    rest = high - digit * d1
    while rest <= UNSIGNED_ONES32 and (digit > UNSIGNED_ONES32 or digit * d0 > ((rest << U32) | next_digit)):
        digit -= U1
        rest += d1
    return digit


def divide_two_words(high: Any, low: Any, divisor: Any) -> Any:
    """(quotient, remainder) of high·2^64 + low by the divisor, unsigned; high < divisor."""
    if high == U0:
        quotient = low // divisor
        return quotient, low - quotient * divisor
    shift = U0
    scaled = divisor
    for step in (32, 16, 8, 4, 2, 1):
        if (scaled >> U(64 - step)) == U0:
            scaled = scaled << U(step)
            shift += U(step)
    top = high
    if shift != U0:
        top = (high << shift) | (low >> (U(64) - shift))
    bottom = low << shift
    first, second = bottom >> U32, bottom & UNSIGNED_ONES32
    q1 = quotient_digit(top, first, scaled)
    rest = ((top << U32) | first) - q1 * scaled
    q0 = quotient_digit(rest, second, scaled)
    rest = ((rest << U32) | second) - q0 * scaled
    return (q1 << U32) | q0, rest >> shift


def long_quotient(x: Any, y: Any, p: Any) -> Any:
    """(upper word, lower word) of ⌊x·2^p / y⌋, and 1 if the rest is at least half of y; zeros for y = 0; 0 ≤ p ≤ 64."""
    if y == 0:
        return S(0), S(0), S(0)
    if p < 64 and -QUICK_DIVISOR < y < QUICK_DIVISOR:
        # The quotient of doubles is wrong by less than 3/8, so the integer nearest to it is the floor, or one more.
        near = float(x) * float(U1 << U(p)) / float(y)
        if -QUICK_QUOTIENT < near < QUICK_QUOTIENT:
            floor = S((near + UNITS) - UNITS)
            left = (x << p) - floor * y
            if left != 0 and (left < 0) != (y < 0):
                floor -= 1
                left += y
            over = left if y > 0 else -left
            return floor >> 63, floor, S(1) if 2 * over >= (y if y > 0 else -y) else S(0)
    top, divisor = magnitude(x), magnitude(y)
    low = U0
    if p == 0:
        low = top
        top = U0
    elif p < 64:
        low = top << U(p)
        top = top >> U(64 - p)
    upper = U0
    if top >= divisor:
        upper = top // divisor
        top = top - upper * divisor
    lower, rest = divide_two_words(top, low, divisor)
    negative = (x < 0) != (y < 0)
    if negative:
        # −q − 1 for the floor, where there is a rest: its complement.
        if rest != U0:
            lower = ~lower
            upper = ~upper
            rest = divisor - rest
        else:
            lower = U0 - lower
            upper = ~upper + (U1 if lower == U0 else U0)
    nearer = S(1) if rest != U0 and rest >= divisor - rest else S(0)
    return S(upper), S(lower), nearer


def short_quotient(x: Any, y: Any, p: Any) -> Any:
    """(⌊x·2^p / y⌋, 1 if the rest is at least half of y) for words of at most 32 bits; zeros for y = 0; 0 ≤ p ≤ 32."""
    if y == 0:
        return S(0), S(0)
    divisor = magnitude(y)
    top = magnitude(x << p)
    quotient = top // divisor
    rest = top - quotient * divisor
    if (x < 0) != (y < 0) and rest != U0:
        return S(~quotient), S(1) if rest <= divisor - rest else S(0)
    signed = S(U0 - quotient) if (x < 0) != (y < 0) else S(quotient)
    return signed, S(1) if rest != U0 and rest >= divisor - rest else S(0)


def long_root(x: Any, s: Any) -> Any:
    """⌊√(x·2^s) + ½⌋, 0 for x < 0; 0 ≤ s ≤ 64. A double gives the first 50 bits, Newton's step the others."""
    if x <= 0:
        return S(0)
    high = U0
    low = U(x)
    if s == 64:
        high = low
        low = U0
    elif s > 0:
        high = low >> U(64 - s)
        low = low << U(s)
    root = U(math.sqrt(float(high) * 18446744073709551616.0 + float(low)))
    if high != U0:
        quotient, _ = divide_two_words(high, low, root)
        root = (root >> U1) + (quotient >> U1) + (root & quotient & U1)
    # The root found may be one too large or one too small.
    over = unsigned_high_word(root, root)
    if over > high or (over == high and root * root > low):
        root -= U1
    following = root + U1
    over = unsigned_high_word(following, following)
    if over < high or (over == high and following * following <= low):
        root = following
    # Nearest: (r + ½)² is r² + r + ¼, and x·2^s is an integer.
    square = root * root
    rest = low - square
    above = high - unsigned_high_word(root, root) - (U1 if low < square else U0)
    return S(root + (U1 if above != U0 or rest > root else U0))


def short_root(x: Any, s: Any) -> Any:
    """⌊√(x·2^s) + ½⌋ for words of at most 32 bits, 0 for x < 0; 0 ≤ s ≤ 32."""
    if x <= 0:
        return S(0)
    square = U(x) << U(s)
    root = U(math.sqrt(float(square)))
    if root * root > square:
        root -= U1
    if (root + U1) * (root + U1) <= square:
        root += U1
    return S(root + (U1 if square - root * root > root else U0))


#: the functions, callees before their callers
FUNCTIONS = (
    choose,
    logical_shift,
    magnitude,
    high_word,
    unsigned_high_word,
    quotient_digit,
    divide_two_words,
    long_quotient,
    short_quotient,
    long_root,
    short_root,
)
