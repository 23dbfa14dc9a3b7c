"""Views of a machine's words, and checks of the integers that its users store.

    machine.registers[i] = n        R[i] := n mod 2^W,  for every integer n

An integer is any object that Python accepts as an index: int, bool, NumPy's integers. Other objects raise InputError RG0603.
All engines store the same words, since all assignments pass through these views.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, MutableSequence
from operator import index
from typing import Any, overload

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.simulator.cotangents import Store


def integer_of(value: Any, what: str) -> int:
    """The value as an int. Raises InputError RG0603 for a value that is no integer; the message names it `what`."""
    try:
        return index(value)
    except TypeError:
        hint = "Words, addresses and counts are integers; rg.fixed.to_words makes words of numbers."
        raise InputError(Diagnostic("RG0603", f"{what} = {value!r:.40} is no integer", hint=hint)) from None


def limit_of(value: Any, what: str = "max_steps") -> int | None:
    """A number of steps, or None for no limit. Raises InputError RG0603 for a negative number, and for a value that is no integer."""
    if value is None:
        return None
    limit = integer_of(value, what)
    if limit < 0:
        hint = "0 or more, or None for no limit"
        raise InputError(Diagnostic("RG0603", f"{what} = {limit} is negative", hint=hint))
    return limit


def words_of(values: Iterable[Any], mask: int, what: str) -> list[int]:
    """The values mod 2^W, with mask = 2^W − 1. Raises InputError RG0603 for a value that is no integer."""
    try:
        block = values.tolist() if hasattr(values, "tolist") else list(values)
    except TypeError:
        raise InputError(Diagnostic("RG0603", f"{what} = {values!r:.40} is no sequence of integers")) from None
    if not isinstance(block, list):
        block = [block]
    # Most values are words already, and the test takes a fifth of the time of masking them.
    if set(map(type, block)) <= {int} and _fit(block, mask):
        return block
    return [integer_of(value, what) & mask for value in block]


#: 2^W − 1 -> the array type of as many bits
_ARRAYS = {0xFF: "B", 0xFFFF: "H", 0xFFFF_FFFF: "I", 0xFFFF_FFFF_FFFF_FFFF: "Q"}


def _fit(block: list[int], mask: int) -> bool:
    """Whether all are words already."""
    if mask not in _ARRAYS:
        return not block or (min(block) >= 0 and max(block) <= mask)
    try:
        array(_ARRAYS[mask], block)
    except OverflowError:
        return False
    return True


class FixedLength(MutableSequence[int]):
    """A sequence of words that can be assigned, and neither deleted nor inserted: both raise TypeError."""

    __slots__ = ()

    def __delitem__(self, index: int | slice) -> None:
        raise TypeError("words cannot be deleted")

    def insert(self, index: int, value: int) -> None:
        raise TypeError("words cannot be inserted")


class WordsView(FixedLength):
    """The words of a store for users: `words[i]` is an int, `words[i:j]` a list; a view equals a list of the same ints.

    An integer is stored mod 2^W; other values raise InputError RG0603. The length is fixed: deleting and inserting raise TypeError.
    """

    __slots__ = ("_mask", "_what", "store")

    def __init__(self, store: Store, mask: int, what: str) -> None:
        #: the sequence that the machine reads and writes
        self.store = store
        self._mask, self._what = mask, what

    def __len__(self) -> int:
        return len(self.store)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        return self.store[index]

    @overload
    def __setitem__(self, index: int, value: int) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[int]) -> None: ...
    def __setitem__(self, index: int | slice, value: Any) -> None:
        if not isinstance(index, slice):
            word = value if type(value) is int else integer_of(value, f"{self._what}[{index}]")
            self.store[index] = word & self._mask
            return
        words = words_of(value, self._mask, self._what)
        if len(words) != len(range(*index.indices(len(self.store)))):
            raise TypeError("words cannot be inserted or deleted")
        self.store[index] = words

    def __iter__(self) -> Iterator[int]:
        return iter(self.store)

    def __eq__(self, other: object) -> bool:
        return bool(self.store == (other.store if isinstance(other, WordsView) else other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self.store))
