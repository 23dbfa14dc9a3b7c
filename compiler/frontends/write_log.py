"""Log of writes to memory: the elements of an array that statements may have changed.

    t = f(p[k]); p[k + 1] += t          p[k] is as before, since the one write to p changed another element

A loop or a branch changes the elements that its blocks change; the ranges of indices bound them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrograd.compiler.ir.expressions import Address, Ranges, are_apart, loads, variables
from retrograd.compiler.ir.statements import Region, Var
from retrograd.isa.words import Format


class Write(NamedTuple):
    """Words in a row that a statement may have changed.

    `versions`: those of the variables of the address and of bounds of its indices.
    """

    address: Address
    versions: Mapping[Var, int]
    words: int = 1


#: the words that a statement may have changed; None where they are not known
Writes = tuple[Write, ...] | None


class WriteLog:
    """The writes of one function to each region."""

    def __init__(self, ranges: Ranges, w: Format) -> None:
        self._ranges, self._w = ranges, w
        #: (region, version) → the version before it, and the writes between the two
        self._events: dict[tuple[Region, int], tuple[int, Writes]] = {}
        #: the writes in the current block so far, and in blocks inside it of which no statement is made yet
        self._here: dict[Region, Writes] = {}
        self._inside: dict[Region, Writes] = {}
        self._around: list[tuple[dict[Region, Writes], dict[Region, Writes]]] = []

    def begin(self) -> None:
        """A block begins."""
        self._around.append((self._here, self._inside))
        self._here, self._inside = {}, {}

    def end(self) -> None:
        """A block ends: its writes are those of the statement that it will be a part of."""
        found = (self._here, self._inside)
        self._here, self._inside = self._around.pop()
        for writes in found:
            for region, more in writes.items():
                _join(self._inside, region, more)

    def taken(self) -> dict[Region, Writes]:
        """The writes in the blocks that ended, for the statement that is made of them."""
        found, self._inside = self._inside, {}
        return found

    def add(self, region: Region, before: int, after: int, writes: Writes) -> None:
        """Between two versions of a region there were these writes."""
        self._events[region, after] = before, writes
        _join(self._here, region, writes)

    def leaves(
        self,
        region: Region,
        then: int,
        now: int,
        read: Sequence[tuple[Address, int]],
        operands: Mapping[Var | Region, int],
    ) -> bool:
        """Whether the words that were read in one version are the same in a later one.

        `operands`: the versions of the variables of their addresses, which are the same now as then.
        """
        read = [(at, words) for at, words in read if at.region is region]
        while now != then:
            before, writes = self._events.get((region, now), (0, None))
            if writes is None or not all(self._misses(w, at, words, operands) for w in writes for at, words in read):
                return False
            now = before
        return True

    def _misses(self, write: Write, at: Address, words: int, operands: Mapping[Var | Region, int]) -> bool:
        """Whether a write changed none of the words from an address on."""
        if any(operands.get(var, version) != version for var, version in write.versions.items()):
            return False
        return are_apart(write.address, write.words, at, words, self._ranges, self._w)

    def operands_of(self, address: Address) -> set[Var]:
        """The variables on which an address depends, and bounds of its indices."""
        found = set() if address.base is None else {address.base}
        left = [v for term, _ in address.terms for v in variables(term)]
        while left:
            var = left.pop()
            if var not in found:
                found.add(var)
                left += [v for e in self._ranges.between.get(var, ()) for v in variables(e)]
        return found


def is_traceable(address: Address) -> bool:
    """Whether an address depends on variables alone, and on no word of memory."""
    return not any(loads(term) for term, _ in address.terms)


def _join(found: dict[Region, Writes], region: Region, more: Writes) -> None:
    known = found.get(region, ())
    found[region] = None if known is None or more is None else (*known, *more)
