"""Operations on two words against Python's integers."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from retrograd.simulator.engines.cuda.word_arithmetic import (
    S,
    U,
    divide_two_words,
    logical_shift,
    quotient_digit,
    unsigned_high_word,
)

ONES = (1 << 64) - 1
#: words at which carries and estimates of digits go wrong first
EDGES = [0, 1, 2, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, ONES - 1, ONES]


@pytest.fixture(autouse=True)
def wrapping() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(over="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def words(seed: int) -> Iterator[int]:
    rng = random.Random(seed)
    while True:
        yield rng.choice(EDGES) if rng.random() < 0.3 else rng.getrandbits(rng.choice((8, 33, 64)))


def test_unsigned_high_word() -> None:
    for x, y, _ in zip(words(1), words(2), range(500), strict=False):
        assert int(unsigned_high_word(U(x), U(y))) == x * y >> 64


def test_logical_shift() -> None:
    for x, k in zip(words(3), range(640), strict=False):
        assert int(logical_shift(S(U(x)), k % 64)) & ONES == x >> k % 64


def test_divide_two_words() -> None:
    tried = 0
    for high, low, divisor, _ in zip(words(4), words(5), words(6), range(1500), strict=False):
        if high < divisor:
            found = divide_two_words(U(high), U(low), U(divisor))
            assert tuple(map(int, found)) == divmod((high << 64) + low, divisor)
            tried += 1
    assert tried > 300


def test_quotient_digit() -> None:
    """A digit of 32 bits, of a divisor with its upper bit set."""
    for high, low, divisor, _ in zip(words(7), words(8), words(9), range(500), strict=False):
        d, digit = divisor | 1 << 63, low >> 32
        top = high % d
        assert int(quotient_digit(U(top), U(digit), U(d))) == ((top << 32) + digit) // d
