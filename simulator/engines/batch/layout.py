"""Batch layout: which words of its memory an instance of a batch has for itself.

memory of instance i  :=  shared words, with those of row i in place of some;  after the run, some are kept, some summed
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.words import Format
from retrograd.simulator.engines.batch.results import ResultArray
from retrograd.simulator.engines.state.words import address_of

#: consecutive words of a memory: (address of the first, how many)
Range = tuple[int, int]

#: kinds of ranges, in the order of a layout's table
KINDS = ("given", "shared", "kept", "summed")
#: words of the table before its ranges
HEAD = len(KINDS) + 2
#: words of an `array_table` before its ranges, and of a range that has an array
ARRAYS_HEAD, ARRAY = len(KINDS) + 3, 7


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

    def shared(self, n: int) -> list[Range]:
        """The ranges of memories of n words that begin as those of the shared memory."""
        out, at = [], 0
        for address, count in sorted(self.given):
            out.append((at, address - at))
            at = address + count
        return [r for r in (*out, (at, n - at)) if r[1]]

    def table(self, n: int) -> NDArray[np.int64]:
        """The layout for memories of n words, as the batch loop reads it.

        The number of ranges of each of KINDS; the number of words that are given, and kept; then the ranges, in this order.
        """
        kinds = [[r for r in kind if r[1]] for kind in (self.given, self.shared(n), self.kept, self.summed)]
        words = [word for kind in kinds for found in kind for word in found]
        return np.array([*map(len, kinds), width(self.given), width(self.kept), *words], dtype=np.int64)


def array_table(
    layout: BatchLayout,
    shared: Sequence[Range],
    given: Sequence[NDArray[Any]],
    kept: Sequence[ResultArray],
    reports: Sequence[NDArray[np.int64] | None],
    w: Format,
) -> NDArray[np.int64]:
    """The layout with an array for each range that is given, and that is kept, as array_loop.py reads it. `shared`: `layout.shared(n)`.

    The number of ranges of each of KINDS; the addresses of the `reports`; then the ranges. A given one: address, length, address
    of the array, bytes from row to row and from word to word, 2^F of an array of float64s and 0 of words. A kept one: address,
    length, address of the words and bytes from row to row, address of the numbers, 2^−(F + scale), and a mark that is set where a number
    has more bits than a float64. All others: address, length. The last word is 0: Python sets it to stop the code. Trap: the table does not keep the arrays alive.
    """
    scale = _bits(2.0**w.frac)
    out: list[int] = [len(given), len(shared), len(kept), len(layout.summed), *map(address_of, reports)]
    for (address, count), array in zip(layout.given, given, strict=True):
        out += (address, count, address_of(array), *array.strides, scale if array.dtype == np.float64 else 0, 0)
    for pair in shared:
        out += pair
    for (address, count), found in zip(layout.kept, kept, strict=True):
        words, reals = found.words, found.reals
        row = 0 if words is None else words.strides[0]
        out += (address, count, address_of(words), row, address_of(reals), _bits(found.factor), 0)
    for pair in layout.summed:
        out += pair
    return np.array([*out, 0], dtype=np.int64)


def mark_large(kept: Sequence[ResultArray], table: NDArray[np.int64]) -> None:
    """Mark the arrays that the code of a batch has marked in their `array_table`."""
    at = ARRAYS_HEAD + table.item(0) * ARRAY + 2 * table.item(1) - 1
    for found in kept:
        at += ARRAY
        if table.item(at):
            found.large = True


@cache
def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def split_columns(matrix: NDArray[Any], ranges: Iterable[Range]) -> list[NDArray[Any]]:
    """The columns of a matrix that belong to each range: views."""
    out, at = [], 0
    for _, count in ranges:
        out.append(matrix[:, at : at + count])
        at += count
    return out


def width(ranges: Iterable[Range]) -> int:
    """The number of words of all the ranges."""
    return sum(count for _, count in ranges)


def exact_sums(halves: NDArray[np.int64]) -> list[int]:
    """The sums of signed words, from the separate sums of their lower 32 bits and of the bits above."""
    return [low + (high << 32) for low, high in halves.reshape(-1, 2).tolist()]
