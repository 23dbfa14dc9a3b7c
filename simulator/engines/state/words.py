"""Arrays of words that compiled code shares with Python, as sequences of ints."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.words import Format
from retrograd.simulator.stores import FixedLength

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
        if isinstance(index, slice) and not isinstance(value, int | np.ndarray):
            value = np.fromiter(value, dtype=self.array.dtype)
            if len(value) != len(range(*index.indices(len(self.array)))):
                raise TypeError("words cannot be inserted or deleted")
        self.array[index] = value

    def copy(self) -> NDArray[Any]:
        """The words in an array of their own, which can be assigned to `words[:]`."""
        return self.array.copy()

    def __iter__(self) -> Iterator[int]:
        return iter(self.array.tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ArrayWords):
            return bool(np.array_equal(self.array, other.array))
        return isinstance(other, list) and self.array.tolist() == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ArrayWords({self.array.tolist()})"
