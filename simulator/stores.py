"""What users of a machine store in it: the words of registers, memory and cotangents; PC, BR, DIR; limits of steps.

    machine.registers[i] = n        R[i] := n mod 2^W,  for every integer n

Integers are what Python takes as an index: ints, bools, NumPy's integers. Anything else is refused with RG0603. So all engines
store the same, whatever they keep their words in.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, MutableSequence
from operator import index
from typing import Any, overload

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.simulator.cotangents import Store


def integer_of(value: Any, what: str) -> int:
    """The value as an int. Raises InputError RG0603 for what is no integer; `what` names it there."""
    try:
        return index(value)
    except TypeError:
        hint = "Words, addresses and counts are integers; rg.fixed.to_words makes words of numbers."
        raise InputError(Diagnostic("RG0603", f"{what} = {value!r:.40} is no integer", hint=hint)) from None


def limit_of(value: Any, what: str = "max_steps") -> int | None:
    """A number of steps, or None for no limit. Raises InputError RG0603 for a negative number, and for what is no integer."""
    if value is None:
        return None
    limit = integer_of(value, what)
    if limit < 0:
        hint = "0 or more, or None for no limit"
        raise InputError(Diagnostic("RG0603", f"{what} = {limit} is negative", hint=hint))
    return limit


def words_of(values: Iterable[Any], mask: int, what: str) -> list[int]:
    """The values mod 2^W, `mask` being 2^W − 1. Raises InputError RG0603 for what is no integer."""
    try:
        block = values.tolist() if hasattr(values, "tolist") else list(values)
    except TypeError:
        raise InputError(Diagnostic("RG0603", f"{what} = {values!r:.40} is no sequence of integers")) from None
    if not isinstance(block, list):
        block = [block]
    # Words that need no masking are the rule, and to see that takes a fifth of the time of masking them.
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


class WordsView(MutableSequence[int]):
    """The words of a store as its user sees them: `words[i]` is an int, `words[i:j]` a list, and it equals a list of the same ints.

    An integer is stored mod 2^W. Its length is fixed: deleting and inserting raise TypeError. Other values raise InputError RG0603.
    """

    __slots__ = ("_mask", "_what", "store")

    def __init__(self, store: Store, mask: int, what: str) -> None:
        #: what the machine itself reads and writes
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

    def __delitem__(self, index: int | slice) -> None:
        raise TypeError("words cannot be deleted")

    def insert(self, index: int, value: int) -> None:
        raise TypeError("words cannot be inserted")

    def __iter__(self) -> Iterator[int]:
        return iter(self.store)

    def __eq__(self, other: object) -> bool:
        return bool(self.store == (other.store if isinstance(other, WordsView) else other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self.store))
