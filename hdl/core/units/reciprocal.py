"""A table of reciprocals: r ≈ 1/Y from below, for 1/2 ≤ Y < 1, by linear interpolation.

    Y = 0.1 i δ … in bits;   r = 1 + ⌊(A[i] − ⌊B[i]·δ / 2^(fine − guard)⌋) / 2^guard⌋ / 2^(k + 2)

    0 < e ≤ 1 / (2^(k + 1) + 1)   with   r·Y = 1 − e

The bound on e is that of a division with k digits a cycle, see `scaled_divider`. r has k + 2 places, so rounding costs at most 2^−(k + 2).
Y is cut behind δ, in place k + 4, and a line replaces the curve: together at most as much again. A[i] is the greatest for which no r exceeds 1/Y.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Reciprocals:
    """The table for k digits a cycle: `entries[i]` = (A, B)."""

    k: int
    entries: tuple[tuple[int, int], ...] = ()

    #: bits of A behind the last place of r
    guard = 4

    @property
    def places(self) -> int:
        """Bits of r behind the point."""
        return self.k + 2

    @property
    def index(self) -> int:
        """Bits of i."""
        return self.k // 2 + 1

    @property
    def delta(self) -> int:
        """Bits of δ."""
        return self.k + 3 - self.index

    @property
    def fine(self) -> int:
        """Bits of B, and its bits behind the last place of r."""
        return self.index + 3

    @property
    def sizes(self) -> tuple[int, int]:
        """Bits of A and of B."""
        return self.places + self.guard, self.fine

    def fraction(self, i: int, delta: int) -> int:
        """(r − 1)·2^places."""
        a, b = self.entries[i]
        return (a - (b * delta >> self.fine - self.guard)) >> self.guard

    def within_bound(self, i: int, delta: int) -> bool:
        """Whether 0 < e ≤ 1 / (2^(k + 1) + 1), for all Y that begin with 1, i, δ. e is least at the highest, which is below `low` + 1."""
        one = 1 << self.places + 1 + self.index + self.delta
        low = (1 << self.index + self.delta) + (i << self.delta) + delta
        r = (1 << self.places) + self.fraction(i, delta)
        return r * (low + 1) <= one and (one - r * low) * ((2 << self.k) + 1) <= one


@cache
def reciprocals(k: int) -> Reciprocals:
    """The table for k of 2 to 16.

    >>> reciprocals(2).entries[0]
    (240, 26)
    """
    shape = Reciprocals(k)
    places, guard, fine, delta = shape.places, shape.guard, shape.fine, 1 << shape.delta
    first = 1 << shape.index + shape.delta
    # the greatest (r − 1)·2^places, for Y below (y + 1) / (2·first); and 1/Y with the places of B, where entries meet
    most = (2 * first << places) // np.arange(first + 1, 2 * first + 1, dtype=np.int64) - (1 << places)
    ends = [(2 * first << places + fine) // y for y in range(first, 2 * first + 1, delta)]
    d = np.arange(delta, dtype=np.int64)
    entries = []
    for i, (high, low) in enumerate(pairwise(ends)):
        b = (high - low + delta // 2) // delta
        a = np.min(((most[i * delta : (i + 1) * delta] + 1) << guard) - 1 + (b * d >> fine - guard))
        entries.append((int(a), b))
    return Reciprocals(k, tuple(entries))
