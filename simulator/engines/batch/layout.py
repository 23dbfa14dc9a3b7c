"""Batch layout: which words of its memory an instance of a batch has for itself.

memory of instance i  :=  shared words, with those of row i in place of some;  after the run, some are kept, some summed
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: consecutive words of a memory: (address of the first, how many)
Range = tuple[int, int]

#: kinds of ranges, in the order of a layout's table
KINDS = ("given", "shared", "kept", "summed")
#: words of the table before its ranges
HEAD = len(KINDS) + 2


@dataclass(frozen=True)
class BatchLayout:
    """The ranges of memory that differ between instances; all other words begin as those of the shared memory.

    A row has the ranges of a kind as columns, in this order. Raises ValueError where ranges that are given overlap.
    """

    #: words that are copied from the instance's row before the run
    given: tuple[Range, ...]
    #: words that are copied to the instance's row of results
    kept: tuple[Range, ...]
    #: words that are added up over all instances that complete
    summed: tuple[Range, ...] = ()

    def __post_init__(self) -> None:
        at = 0
        for address, count in sorted(self.given):
            if address < at:
                raise ValueError(f"two of the ranges {self.given} overlap")
            at = address + count

    @staticmethod
    def first(width: int) -> BatchLayout:
        """The first words of memory are given, and the same are kept."""
        return BatchLayout(((0, width),), ((0, width),))

    @property
    def end(self) -> int:
        """The first address beyond all ranges."""
        return max((address + n for kind in (self.given, self.kept, self.summed) for address, n in kind), default=0)

    def table(self, n: int) -> NDArray[np.int64]:
        """The layout for memories of n words, as the batch loop reads it.

        The number of ranges of each of KINDS; the number of words that are given, and kept; then the ranges, in this order.
        """
        shared, at = [], 0
        for address, count in sorted(self.given):
            shared.append((at, address - at))
            at = address + count
        shared.append((at, n - at))
        kinds = [[r for r in kind if r[1]] for kind in (self.given, shared, self.kept, self.summed)]
        words = [word for kind in kinds for found in kind for word in found]
        return np.array([*map(len, kinds), width(self.given), width(self.kept), *words], dtype=np.int64)


def width(ranges: Iterable[Range]) -> int:
    """The number of words of all the ranges."""
    return sum(count for _, count in ranges)


def exact_sums(halves: NDArray[np.int64]) -> list[int]:
    """The sums of signed words, from the separate sums of their lower 32 bits and of the bits above."""
    return [low + (high << 32) for low, high in halves.reshape(-1, 2).tolist()]
