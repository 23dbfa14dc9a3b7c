"""The control block: words that compiled code shares with Python, and the ways in which a run of compiled code ends."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine
from retrograd.simulator.stores import Cotangents, FixedLength, Store

#: more steps than any run takes
UNLIMITED = 1 << 62


class Slot(IntEnum):
    """Words of the control block that handlers and Python share."""

    IP = 0
    BR = 1
    LEFT = 2
    FLAGS = 3
    #: +1, or −1 after `Machine.turn`
    WAY = 4
    CROSSED = 5
    LOST_POINT = 6
    #: 0 where nothing is lost
    LOST_WAY = 7
    DROPPED = 8
    #: addresses of the forward code and of the backward code, and the bytes of either
    FORWARD = 9
    BACKWARD = 10
    BYTES = 11
    #: address of an instruction + that of its mirror image
    MIRROR = 12
    #: log of the words lost since the last safepoint, for undoing: its address, and the number of words
    LOG = 13
    LOGGED = 14
    #: the interpreter's Exit; Python may raise Ctrl-C in place of the result of the call
    WHY = 15


class Flag(IntEnum):
    """Modes of a run."""

    OVERFLOW = 1
    STRICT = 2
    #: guards do not trap, and lost words come back from the log: for undoing steps beyond a failed guard
    LENIENT = 4
    KEEP = 8


class Exit(IntEnum):
    """Reasons for which compiled code returns."""

    HALTED = 0
    #: the reference machine has to execute the instruction at IP, or to raise its trap
    REFUSED = 1
    LIMIT = 2
    #: the jump from IP leads out of the code
    BAILOUT = 3
    #: an uncompute block has to be executed that the translation leaves out
    UNCOMPUTE = 4
    #: on a device: rows of a loop have to be executed; the code goes on in the next launch
    ROWS = 5
    PAUSED = 6


class TranslatedSlot(IntEnum):
    """Words of the control block behind those of Slot, which only translated code uses."""

    #: steps since the last safepoint if a guard has failed since; else 0
    WINDOW = len(Slot)
    #: the address at which the code stopped, counted as in the nodes of `translator/flow.py`
    NODE = len(Slot) + 1
    #: set by Python to stop the code at the next safepoint
    STOP = len(Slot) + 2
    #: the address of the words of TeamSlot; 0 without a second thread
    TEAM = len(Slot) + 3
    #: first of the words of ACCOUNT as they were at the last safepoint
    SAVED = len(Slot) + 4


class TeamSlot(IntEnum):
    """Words that two threads of translated code share: rows of a loop, see `translator/parallel_loops.py`."""

    STATE = 0
    FUNCTION = 1
    MEMORY = 2
    WORDS = 3
    REGISTERS = 4
    DELTAS = 5
    FIRST = 6
    LAST = 7
    PASSES = 8
    #: the row that failed, or LAST
    RESULT = 9


class TeamState(IntEnum):
    """Whose turn it is: the second thread's in WORK."""

    IDLE = 0
    WORK = 1
    DONE = 2
    QUIT = 3


#: the account of dropped cotangents
ACCOUNT = (Slot.CROSSED, Slot.DROPPED, Slot.LOST_POINT, Slot.LOST_WAY)
CONTROL_WORDS = len(Slot) + len(TranslatedSlot) + len(ACCOUNT)


# -----------------------------------------------------------------------------
# Snapshots of a machine: all that a run changes, copied so that the run can begin anew.
#
# restore(machine, snapshot(machine)) changes nothing, on whichever engine the machine has run in between


class Snapshot(NamedTuple):
    pc: int
    br: int
    direction: int
    #: copies of registers, memory, counts and cotangents
    stores: list[Any]
    #: the account of dropped cotangents; None on a machine without cotangents
    dropped: tuple[Any, ...] | None


def snapshot(machine: Machine) -> Snapshot:
    c = machine._cotangents
    dropped = None if c is None else (c.way, c.dropped, dict(c.kept), c._crossed, c._lost)
    return Snapshot(machine._pc, machine._br, machine._direction, [s.copy() for s in _stores(machine)], dropped)


def restore(machine: Machine, before: Snapshot) -> None:
    machine._pc, machine._br, machine._direction = before[:3]
    for store, old in zip(_stores(machine), before.stores, strict=True):
        store[:] = old
    c = machine._cotangents
    if c is not None and before.dropped is not None:
        c.way, c.dropped, c.kept, c._crossed, c._lost = before.dropped


def _stores(machine: Machine) -> list[Any]:
    c = machine._cotangents
    cotangents: list[Store] = [] if c is None else [c.registers, c.memory]
    return [machine._registers, machine._memory, machine.executed[+1], machine.executed[-1], *cotangents]


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
