"""Words of a machine: stores, the cotangents of their words, and the views that users read and write.

    machine.registers[i] = n        R[i] := n mod 2^W,  for every integer n

An integer is any object that Python accepts as an index: int, bool, NumPy's integers. Other objects raise InputError RG0603.
All engines store the same words, since all assignments of users pass through these views.

`SparseWords` holds the words of a large memory that differ from zero, so a run costs the words that it uses.

`Cotangents` keeps an account of cotangents that were dropped when their ancillas were freed. The steps of cotangents are computed from
the table of instructions, in `isa/derivatives.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, MutableSequence
from operator import index
from typing import Any, Protocol, overload

from retrograd.isa.diagnostics import Diagnostic, InputError


class Store(Protocol):
    """A machine's words: a list of ints, or the sequence that another engine has in its place."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    @overload
    def __getitem__(self, index: int, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[int]: ...
    @overload
    def __setitem__(self, index: int, value: int, /) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[int], /) -> None: ...


class Fault(Exception):
    """A guard did not hold. The machine makes a Trap of it, which names the place."""

    def __init__(self, code: str, value: int | None = None, cotangent: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.value = value
        #: whether a cotangent does not fit, or cannot come back
        self.cotangent = cotangent


class Cotangents:
    """The cotangents of all registers and memory words.

    An ancilla is freed at a point of the run. Crossing the point exchanges the ancilla's cotangent with a word that belongs to
    the point and is zero at first. Crossing it the other way exchanges them back. With `keep`, these words are kept. Without,
    they are lost: `dropped` counts the lost words that are not zero, and to cross the last such point backward is a fault, since every
    later cotangent would be wrong. With `strict`, to lose a cotangent that is not zero is a fault.
    """

    #: +1 along the run; −1 after `Machine.turn`, against it
    way: int
    #: how many cotangents were dropped that were not zero
    dropped: int
    _crossed: int
    _lost: tuple[int, int] | None

    def __init__(self, registers: Store, memory: Store, *, keep: bool = False, strict: bool = False) -> None:
        self.registers = registers
        self.memory = memory
        self.keep = keep
        self.strict = strict
        self.way = 1
        self.dropped = 0
        #: point of the run -> the cotangent dropped there, if it was not zero
        self.kept: dict[int, int] = {}
        self._crossed = 0
        self._lost = None

    def copy(self) -> Cotangents:
        """The same cotangents and the same account of them, in lists and sparse words."""
        memory = self.memory.copy() if isinstance(self.memory, SparseWords) else list(self.memory)
        made = Cotangents(list(self.registers), memory, keep=self.keep, strict=self.strict)
        made.way, made.dropped, made.kept = self.way, self.dropped, dict(self.kept)
        made._crossed, made._lost = self._crossed, self._lost
        return made

    def clear(self) -> None:
        """Set all cotangents to zero, as before the first step. The count of dropped cotangents stays."""
        for store in (self.registers, self.memory):
            store[:] = SparseWords((), len(store)) if isinstance(store, SparseWords) else [0] * len(store)
        self.kept.clear()
        self._lost = None

    def drop(self, word: int) -> int:
        """Cross a point at which the ancilla with this cotangent is freed. Returns its cotangent behind the point.

        Raises Fault, having changed nothing: RG0409 if a lost cotangent would have to come back, RG0408 if a cotangent would be
        lost and `strict` forbids it.
        """
        # Points are counted along the run, so a point is met again only from its other side.
        point = self._crossed if self.way > 0 else self._crossed - 1
        if self._lost == (point, -self.way):
            raise Fault("RG0409", cotangent=True)
        if word and self.strict and not self.keep:
            raise Fault("RG0408", word, cotangent=True)
        self._crossed += self.way
        if self.keep:
            back = self.kept.pop(point, 0)
            if word:
                self.kept[point] = word
            return back
        if word:
            self.dropped += 1
            self._lost = point, self.way
        return 0


# ---------------------------------------------------------------- words from outside


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


class WordsByAddress(dict[int, int]):
    """address -> word, for the addresses that were written; 0 at the others. Its length is that of the memory."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __missing__(self, address: int) -> int:
        return 0


class SparseWords(FixedLength):
    """The words of a memory that begins as zeros, in the room of those that were written.

    Handlers of instructions use `words`, with the accesses of a dict. Trap: `words` accepts any integer as an address.
    """

    __slots__ = ("words",)

    def __init__(self, first: Iterable[int], length: int) -> None:
        self.words: WordsByAddress = WordsByAddress(length)
        self.words.update(enumerate(first))

    def copy(self) -> SparseWords:
        """The same words in a store of its own."""
        made = SparseWords((), len(self))
        made.words.update(self.words)
        return made

    def written(self) -> Iterable[tuple[int, int]]:
        """(address, word) of all words that may differ from zero."""
        return self.words.items()

    def __len__(self) -> int:
        return len(self.words)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            get = self.words.get
            return [get(i, 0) for i in range(*index.indices(len(self)))]
        return self.words[range(len(self))[index]]

    @overload
    def __setitem__(self, index: int, value: int) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[int]) -> None: ...
    def __setitem__(self, index: int | slice, value: Any) -> None:
        if not isinstance(index, slice):
            self.words[range(len(self))[index]] = value
        elif isinstance(value, SparseWords) and index == slice(None) and len(value) == len(self):
            self.words.clear()
            self.words.update(value.words)
        else:
            self.words.update(zip(range(*index.indices(len(self))), value, strict=True))

    def __iter__(self) -> Iterator[int]:
        return map(self.words.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SparseWords):
            return len(self) == len(other) and all(self.words[i] == other.words[i] for i in {*self.words, *other.words})
        return isinstance(other, list | FixedLength) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


#: words from which on a memory is held sparsely: a list of as many takes the time of some thousand steps,
#: which are a tenth slower on sparse words
LARGE = 1 << 18
#: words from which on a memory is a list again: it is refused where the computer has no room for all of its words
LARGEST = 1 << 30


def memory_words(first: Iterable[int], length: int, large: int = LARGE) -> Store:
    """A memory that begins with these words, and zeros behind them. It is sparse if it has more than `large` words."""
    if large < length <= LARGEST:
        return SparseWords(first, length)
    found = list(first)
    return found + [0] * (length - len(found))


def copied(store: Store) -> Store:
    """The same words in a store of its own: sparse words, or a list."""
    return store.copy() if isinstance(store, SparseWords) else list(store)


def changed(before: Store, after: Store) -> list[int]:
    """The addresses at which two stores of one length differ, in their order."""
    if isinstance(before, SparseWords) and isinstance(after, SparseWords) and len(before) == len(after):
        return sorted(i for i in {*before.words, *after.words} if before.words[i] != after.words[i])
    return [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]


def for_handlers(store: Store) -> Store:
    """The store as handlers of instructions use it: by addresses that they have checked, and never by slices."""
    return store.words if isinstance(store, SparseWords) else store  # type: ignore[return-value]


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
