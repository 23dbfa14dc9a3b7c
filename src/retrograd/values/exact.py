"""Floats that keep the words they were made from.

A float64 has 53 bits and a word may have 64. A number of a result is therefore a float that carries its word along:

    to_words(to_reals(words)) == words,  bit for bit

`WordFloat` is a float, `WordFloat64` a NumPy scalar; `retrograd.values.arrays` has the same for arrays. They print, compare and
compute as their values do, and arithmetic gives ordinary floats, without words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.isa.words import Format
from retrograd.values.conversions import RealKind, nearest_reals

#: integers up to 2^53 are float64s
WHOLE = 1 << 53
#: logarithms up to this are those of floats that are not subnormal
_LOGS = 1022


class WordFloat(float):
    """A float that keeps the word it stands for: a result of a run that float64 alone cannot hold."""

    __slots__ = ("format", "kind", "word")
    format: Format
    kind: RealKind
    word: int

    def __new__(cls, value: float, word: int, kind: RealKind, format: Format) -> WordFloat:
        self = float.__new__(cls, value)
        self.word, self.kind, self.format = word, kind, format
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return WordFloat, (float(self), self.word, self.kind, self.format)

    def __copy__(self) -> WordFloat:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> WordFloat:
        return self


class WordFloat64(np.float64):
    """`WordFloat` as an element of an array: a np.float64."""

    format: Format
    kind: RealKind
    word: int

    def __new__(cls, value: float, word: int, kind: RealKind, format: Format) -> WordFloat64:
        self = super().__new__(cls, value)
        self.word, self.kind, self.format = word, kind, format
        return self

    def item(self, *args: Any) -> WordFloat:
        """The number as a float of Python's."""
        return WordFloat(float(self), self.word, self.kind, self.format)

    def tolist(self) -> WordFloat:
        """The number as a float of Python's."""
        return self.item()

    def __repr__(self) -> str:
        return repr(np.float64(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return WordFloat64, (float(self), self.word, self.kind, self.format)

    def __copy__(self) -> WordFloat64:
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None) -> WordFloat64:
        return self


def real_of(word: int, kind: RealKind, format: Format) -> float:
    """The number that a word stands for; a WordFloat where a float64 has too few bits for it."""
    if kind == "fixed":
        integer = format.signed(word)
        value = integer / (1 << format.frac)
        if -WHOLE <= integer <= WHOLE or int(value * (1 << format.frac)) == integer:
            return value
    else:
        half = format.sign >> 1
        log = (((word & (format.sign - 1)) ^ half) - half) / (1 << format.frac)
        if -_LOGS < log < _LOGS:
            value = float(np.exp2(log)) * (-1 if word & format.sign else 1)
        else:
            value = float(nearest_reals(np.array([word], dtype=np.uint64), kind, format)[0])
    return WordFloat(value, word, kind, format)


def word_of(value: Any, kind: RealKind, format: Format) -> int | None:
    """The word of a number, if it has one of this kind and format."""
    if type(value) is not WordFloat and type(value) is not WordFloat64:
        return None
    # Most formats are one object, and to compare two takes longer than all else here.
    same = value.format is format or value.format == format
    return value.word if same and value.kind == kind else None
