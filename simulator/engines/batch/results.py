"""Results of a batch in the arrays that its caller gets: words, real numbers, or both.

real = word · 2^−(F + scale),  as near as a float64 comes
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.words import Format

Words = NDArray[np.uint64]

#: integers up to 2^53 are float64s
EXACT = 53


class ResultArray:
    """The kept words of a range of memory, one row for each instance: as words, as numbers, or as both; None for the other.

    `scale`: the numbers are 2^scale times as small. `large`: some number may have more bits than a float64.
    """

    def __init__(self, words: Words | None, reals: NDArray[np.float64] | None, w: Format, scale: int = 0) -> None:
        self.words, self.reals, self.format = words, reals, w
        #: a number is its integer times this
        self.factor = 2.0 ** -(w.frac + scale)
        self.large = False

    def part(self, first: int) -> ResultArray:
        """The rows from `first` on: views."""
        words = None if self.words is None else self.words[first:]
        reals = None if self.reals is None else self.reals[first:]
        found = ResultArray(words, reals, self.format)
        found.factor = self.factor
        return found

    def put(self, at: Any, words: Words) -> None:
        """Set rows, by their index, a slice, or an array of indices."""
        if self.words is not None:
            self.words[at] = words
        if self.reals is not None and words.size:
            up = np.uint64(64 - self.format.width)
            integers = (words << up).view(np.int64) >> up.view(np.int64)
            self.reals[at] = integers * np.float64(self.factor)
            self.large |= int(integers.max()) > 1 << EXACT or int(integers.min()) < -1 << EXACT

    def put_rows(self, at: Any, other: ResultArray) -> None:
        """Set rows to those of another array of the same form."""
        if self.words is not None and other.words is not None:
            self.words[at] = other.words
        if self.reals is not None and other.reals is not None:
            self.reals[at] = other.reals
        self.large |= other.large
