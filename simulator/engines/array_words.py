"""Words of a machine as NumPy arrays, which compiled code reads and writes in place; and cotangents whose account compiled code keeps.

ArrayWords(array)[i] = v    v mod 2^W as an unsigned number; an array has a spare word behind the last one
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.words import Format
from retrograd.simulator.engines.state import Slot
from retrograd.simulator.stores import Cotangents, FixedLength, SparseWords, Store

if sys.platform == "linux":
    import resource

# -----------------------------------------------------------------------------
# Arrays of words that compiled code shares with Python, as sequences of ints.

#: the unsigned type that holds a word of the width
DTYPES: dict[int, type[np.unsignedinteger[Any]]] = {
    4: np.uint8,
    8: np.uint8,
    16: np.uint16,
    32: np.uint32,
    64: np.uint64,
}


def words_with_spare(count: int, w: Format) -> ArrayWords:
    """Zero words as compiled code reads them. A spare word lies behind them: addresses beyond the memory are replaced by its address."""
    return ArrayWords(zeros(count + 1, w)[:count])


def zeros(count: int, w: Format) -> NDArray[np.unsignedinteger[Any]]:
    """An array of zero words of the format, in the type that compiled code reads."""
    return np.zeros(count, dtype=DTYPES[w.width])


#: bytes from which on fresh pages take less time than zeros that are written
_MANY = 1 << 21


def fresh_zeros(count: int, dtype: Any) -> NDArray[Any]:
    """Zeros that take the room and the time of the pages that are used.

    Where all are used, `np.zeros` takes less time.
    """
    size = count * np.dtype(dtype).itemsize
    if size < _MANY or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(count, dtype)
    return np.frombuffer(_fresh_pages(size), dtype)


#: a number of 64 bits for each page of this process
_PAGE_MAP = "/proc/self/pagemap"


class ReusedZeros:
    """Zeros for one run after another, in pages that stay. What a run has changed becomes zero before the next one.

        zeros = ReusedZeros.of(count)    `zeros.array` has at least `count` words of 64 bits, from `zeros.address` on
        zeros.clear(steps)               a run of that many steps has ended, and another one begins
        zeros.used(steps)                it has ended, and the array may serve any other run

    The first use of a page costs a microsecond or more, and twice that where it is read before it is written. To clear
    it costs a twentieth. The system reports the pages in use (`_PAGE_MAP`); it is asked only behind a run that has met
    new pages. A run uses at most a word for each step. So where many more pages are in use, they belong to a longer run
    before it, and are given back.

    Traps: an array of which views are left is not used again. A view must not be written to behind the run.
    """

    #: other systems than Linux keep the words of pages that are given back
    are_supported = sys.platform == "linux" and hasattr(mmap, "MADV_DONTNEED") and os.access(_PAGE_MAP, os.R_OK)
    #: arrays that have served a run: at most `_MOST`, of at most `_LARGEST` pages in use
    _spare: ClassVar[list[ReusedZeros]] = []
    _MOST, _LARGEST = 4, 4096
    #: pages that stay behind any run, and steps that take as long as to clear a page
    _FEW, _STEPS = 16, 32
    #: bytes by which arrays grow, so that programs of about one size share them
    _GRAIN = 1 << 20

    def __init__(self, size: int) -> None:
        self._pages = _fresh_pages(size)
        self.array: NDArray[Any] = np.frombuffer(self._pages, np.int64)
        self.address = address_of(self.array)
        #: references to the array where there are no views
        self._alone = sys.getrefcount(self.array)
        #: (first, number) of pages in use; None where the system must be asked
        self._resident: list[tuple[int, int]] | None = []
        self._faults = self._steps = 0

    @classmethod
    def of(cls, count: int) -> ReusedZeros:
        """Zeros for at least that many words of 64 bits."""
        size = -(-8 * count // cls._GRAIN) * cls._GRAIN
        for _ in range(len(cls._spare)):
            try:
                found = cls._spare.pop()
            except IndexError:  # other threads have taken them
                continue
            if len(found._pages) == size and sys.getrefcount(found.array) == found._alone:
                found._clear()
                break
            cls._spare.insert(0, found)
        else:
            found = cls(size)
        found._faults = _page_faults()
        return found

    def used(self, steps: int) -> None:
        """Keep the array for another run."""
        self._ended(steps)
        self._spare.append(self)
        del self._spare[: -self._MOST]

    def clear(self, steps: int) -> None:
        """Set all words to zero between two runs of their user, who may keep views."""
        self._ended(steps)
        self._clear()
        self._faults = _page_faults()

    def _ended(self, steps: int) -> None:
        self._steps = steps
        if _page_faults() != self._faults:
            self._resident = None

    def _clear(self) -> None:
        if self._resident is None:
            self._resident = _pages_in_use(self.address, len(self._pages))
        if sum(n for _, n in self._resident) > min(self._LARGEST, self._FEW + self._steps // self._STEPS):
            self._pages.madvise(mmap.MADV_DONTNEED)
            self._resident = []
        for first, n in self._resident:
            ctypes.memset(self.address + first * mmap.PAGESIZE, 0, n * mmap.PAGESIZE)


def _page_faults() -> int:
    """The first uses of pages by this process: a run may have several threads."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _pages_in_use(address: int, size: int) -> list[tuple[int, int]]:
    """(first, number) of neighbouring pages in use in a range of memory; all where the system does not report them."""
    pages = size // mmap.PAGESIZE
    try:
        with open(_PAGE_MAP, "rb", buffering=0) as file:
            file.seek(address // mmap.PAGESIZE * 8)
            raw = file.read(pages * 8)
    except OSError:
        raw = b""
    if len(raw) != pages * 8:
        return [(0, pages)]
    # The upper two bits: the page is in memory, or was moved out of it.
    used = np.frombuffer(raw, np.uint64) >> np.uint64(62) != 0
    edges = np.flatnonzero(np.diff(used, prepend=False, append=False)).tolist()
    return [(first, end - first) for first, end in zip(edges[::2], edges[1::2], strict=True)]


def _fresh_pages(size: int) -> mmap.mmap:
    """That many bytes of zeros, in pages that get their room when they are used."""
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if _gives_large_pages():
        with suppress(OSError):
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return pages


@cache
def _gives_large_pages() -> bool:
    """Whether the kernel may give large pages, all of whose words are cleared, without advice."""
    try:
        modes = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text(encoding="ascii")
    except (OSError, UnicodeError):
        modes = "[always]"
    return hasattr(mmap, "MADV_NOHUGEPAGE") and "[always]" in modes


def shared_words(words: Store, w: Format) -> ArrayWords:
    """The words in an array, as compiled code reads them."""
    if isinstance(words, ArrayWords):
        return words
    if isinstance(words, SparseWords):
        shared = ArrayWords(np.zeros(0, DTYPES[w.width]))
        shared.renew(words)
        return shared
    shared = words_with_spare(len(words), w)
    shared[:] = words
    return shared


def address_of(array: NDArray[Any] | None) -> int:
    """The address of an array's first element; 0 of None, and of an array without elements. Trap: it does not keep the array alive."""
    if array is None or not array.size:
        return 0
    flags = array.flags
    if flags.c_contiguous and flags.writeable:
        # Equal to `array.ctypes.data`, in a third of the time.
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    return array.ctypes.data


class ArrayWords(FixedLength):
    """Ints in an array: `words[i]` is an int, `words[i:j]` a list, and it equals a list of the same ints.

    Its length is fixed: deleting and inserting raise TypeError.
    """

    __slots__ = ("array",)

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        found: int | list[int] = self.array[index].tolist()
        return found

    @overload
    def __setitem__(self, index: int, value: int) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[int]) -> None: ...
    def __setitem__(self, index: int | slice, value: int | Iterable[int]) -> None:
        if isinstance(value, SparseWords) and index == slice(None) and len(value) == len(self):
            self.renew(value)
            return
        if isinstance(index, slice) and not isinstance(value, int | np.ndarray):
            value = np.fromiter(value, dtype=self.array.dtype)
            if len(value) != len(range(*index.indices(len(self.array)))):
                raise TypeError("words cannot be inserted or deleted")
        self.array[index] = value

    def renew(self, words: SparseWords) -> None:
        """Take a new array with these words: zeros are fresh in it, and would be written in the old one, all of them."""
        self.array = fresh_zeros(len(words) + 1, self.array.dtype)[: len(words)]
        for address, word in words.written():
            self.array[address] = word

    def copy(self) -> NDArray[Any]:
        """The words in an array of their own, which can be assigned to `words[:]`."""
        return self.array.copy()

    def __iter__(self) -> Iterator[int]:
        return iter(self.array.tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ArrayWords):
            return bool(np.array_equal(self.array, other.array))
        return isinstance(other, list | SparseWords) and self.array.tolist() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ArrayWords({self.array.tolist()})"


# -----------------------------------------------------------------------------
# Cotangents in arrays, with their account in the control block, where compiled code keeps it.


class SharedCotangents(Cotangents):
    """Cotangents whose account lies in the control block."""

    def __init__(self, control: NDArray[np.int64], *words: Store, keep: bool, strict: bool) -> None:
        self._control = control
        super().__init__(*words, keep=keep, strict=strict)

    def take_over(self, old: Cotangents) -> None:
        """Copy the account of other cotangents."""
        self.way, self.dropped, self.kept = old.way, old.dropped, old.kept
        self._crossed, self._lost = old._crossed, old._lost

    @property
    def way(self) -> int:
        return int(self._control[Slot.WAY])

    @way.setter
    def way(self, way: int) -> None:
        self._control[Slot.WAY] = way

    @property
    def dropped(self) -> int:
        return int(self._control[Slot.DROPPED])

    @dropped.setter
    def dropped(self, count: int) -> None:
        self._control[Slot.DROPPED] = count

    @property
    def _crossed(self) -> int:
        return int(self._control[Slot.CROSSED])

    @_crossed.setter
    def _crossed(self, point: int) -> None:
        self._control[Slot.CROSSED] = point

    @property
    def _lost(self) -> tuple[int, int] | None:
        way = int(self._control[Slot.LOST_WAY])
        return (int(self._control[Slot.LOST_POINT]), way) if way else None

    @_lost.setter
    def _lost(self, lost: tuple[int, int] | None) -> None:
        self._control[Slot.LOST_POINT], self._control[Slot.LOST_WAY] = lost or (0, 0)
