"""An instance of a batch, run alone on a CPU: a failed check ends it at once.

The words of an instance that fails are discarded, and a machine runs it again from its given words. So nothing has to be undone,
and no state has to be precise: a check is a comparison and a branch that is not taken. The deferred checks of a whole machine
(translate.py) gather flags instead, and use a spare word for addresses outside memory.

Checks of addresses are shared: the accesses of a straight run that add constants low … high to one word of a register lie in memory if and
only if its word + low lies below n − (high − low). An access with a region (ghost_uncompute.py) is checked for its region alone, which
lies in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.encoding import Instruction
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.simulator.engines.array_words import address_of
from retrograd.simulator.engines.llvm.builder import I64, ModuleBuilder, Value
from retrograd.simulator.engines.state import Exit
from retrograd.simulator.engines.translator.flow import Flow, Region, Variant, flow_of, has_address, written
from retrograd.simulator.engines.translator.translate import Translator


class AccessRange(NamedTuple):
    """The least and the largest constant that accesses add to a register, and the region in which they must lie."""

    low: int
    high: int
    region: Region | None

    @property
    def span(self) -> int:
        return self.high - self.low


def access_ranges(
    code: Sequence[Instruction], run: Sequence[int], regions: Mapping[int, Region]
) -> dict[int, AccessRange]:
    """Of a straight run: the address of the first access to each word of a register -> the range of all of them."""
    writes: dict[int, int] = {}
    #: (register, writes to it so far, region) -> (the first access, the constants)
    found: dict[tuple[int, int, Region | None], tuple[int, list[int]]] = {}
    for at in run:
        i = code[at]
        if has_address(i):
            key = i.ra, writes.get(i.ra, 0), regions.get(at)
            found.setdefault(key, (at, []))[1].append(i.imm)
        for r in written(i):
            writes[r] = writes.get(r, 0) + 1
    return {at: AccessRange(min(added), max(added), key[2]) for key, (at, added) in found.items()}


def translate_instance(program: Program, variant: Variant, module: ModuleBuilder, name: str) -> None:
    """Define the function of one instance in the module, with the parameters of `translate`. Where it fails, it reports zeros."""
    InstanceTranslator(flow_of(program, variant), variant, module, name).emit()


class InstanceTranslator(Translator):
    """Emits the function of a program for one instance whose words are discarded where it fails."""

    def __init__(self, flow: Flow, variant: Variant, module: ModuleBuilder, name: str) -> None:
        super().__init__(flow, variant, module, name)
        self.discard = self.code.block("discard")
        # No check is ever pending.
        self.fails = False
        regions = self.ghosts.expected if self.ghosts else {}
        self.ranges = {
            at: found for run in flow.blocks.values() for at, found in access_ranges(flow.code, run, regions).items()
        }

    def _begin(self) -> None:
        super()._begin()
        n = self.given["n"]
        spans = sorted({found.span for found in self.ranges.values() if found.region is None})
        #: high − low of a range -> the number of its first addresses that are in memory
        self.rooms = {span: n.gtu(span).select(n - span, 0) if span else n for span in spans}

    def _end(self) -> None:
        super()._end()
        self.code.start(self.discard)
        report = self.given["report"].of(I64)
        for k in range(3):
            report[k].store(0)
        self.code.ret(Exit.REFUSED)

    def _check(self, holds: Value) -> None:
        # Positive, since LLVM has no short form for the negation of some comparisons.
        on = self.code.block("on")
        self.code.branch(holds, on, self.discard, likely=True)
        self.code.start(on, keep=True)

    def _address(self, i: Instruction) -> None:
        base, found = self._read(f"r{i.ra}"), self.ranges.get(self.at)
        self.address = self.unchecked = (base + i.imm).to(I64)
        if found is None:
            return
        first = (base + found.low).to(I64)
        if found.region is None:
            self._check(first.ltu(self.rooms[found.span]))
        else:
            start, size = found.region
            self._check((first - start).ltu(max(size - found.span, 0)))

    def _stray(self, at: int) -> None:
        """`_address` has checked the region."""


# -----------------------------------------------------------------------------
# Results of a batch in the arrays that its caller gets: words, real numbers, or both.
#
# real = word · 2^−(F + scale),  as near as a float64 comes

Words = NDArray[np.uint64]

#: integers up to 2^53 are float64s
EXACT = 53


class ResultArray:
    """The kept words of a range of memory, one row for each instance: as words, as numbers, or as both; None for the other.

    `scale`: the numbers are 2^scale times as small. `large`: some number may have more bits than a float64.
    """

    #: they lie on a device
    there = False

    def __init__(self, words: Words | None, reals: NDArray[np.float64] | None, w: Format, scale: int = 0) -> None:
        self.words, self.reals, self.format = words, reals, w
        #: a number is its integer times this
        self.factor = 2.0 ** -(w.frac + scale)
        self.large = False

    @property
    def width(self) -> int:
        """The words of a row."""
        kept = self.reals if self.words is None else self.words
        return 0 if kept is None else int(kept.shape[1])

    def part(self, first: int) -> ResultArray:
        """The rows from `first` on: views."""
        words = None if self.words is None else self.words[first:]
        reals = None if self.reals is None else self.reals[first:]
        found = ResultArray(words, reals, self.format)
        found.factor = self.factor
        return found

    def on_device(self, shape: tuple[int, ...]) -> Any:
        """The numbers as an array of that shape on a device, where they lie there; else None."""
        return None

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


# -----------------------------------------------------------------------------
# Batch layout: which words of its memory an instance of a batch has for itself.
#
# memory of instance i  :=  shared words, with those of row i in place of some;  after the run, some are kept, some summed

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
