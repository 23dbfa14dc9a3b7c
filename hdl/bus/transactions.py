"""What simulated hardware is asked to do, and what it tells: the same for every simulator.

An order writes words, sets where control stands, executes a number of instructions and reads words. A simulator carries
out orders one after the other on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retrograd.hdl.core.ports import Space
from retrograd.hdl.microcode.microword import Trap


class Change(NamedTuple):
    """What became of one place: which halves were written (1 the word, 2 the cotangent), and the words around it."""

    written: int
    word_before: int
    cotangent_before: int
    word_after: int
    cotangent_after: int


class Record(NamedTuple):
    """What the retirement port told of one instruction; PC and BR signed."""

    trap: Trap
    instruction: int
    pc_before: int
    pc_after: int
    br_before: int
    br_after: int
    backward_before: bool
    backward_after: bool
    #: of all instructions retired since the counters were cleared
    cycles: int
    #: clock cycles since the order began
    clock: int
    address: int
    d: Change
    a: Change
    b: Change
    m: Change


@dataclass(frozen=True)
class Order:
    """One order. PC, BR and direction are left as they are where None stands."""

    #: (space, address, word)
    writes: Sequence[tuple[Space, int, int]] = ()
    pc: int | None = None
    br: int | None = None
    backward: bool | None = None
    #: then turn the machine round
    turn: bool = False
    #: forget dropped cotangents
    forget: bool = False
    #: counters to zero
    clear: bool = False
    differentiate: bool = False
    overflow: bool = True
    strict: bool = False
    #: instructions to execute at most
    steps: int = 0
    #: keep a record of the last instruction only, however many there are
    last_only: bool = False
    code_size: int = 0
    data_size: int = 0
    #: (space, first address, how many)
    reads: Sequence[tuple[Space, int, int]] = ()


@dataclass(frozen=True)
class Report:
    """What came of an order."""

    #: one for each instruction that retired, and for the trap; or the last of them
    records: list[Record]
    halted: bool
    pc: int
    br: int
    backward: bool
    #: cycles, instructions, bits toggled, bits erased: since they were last cleared
    counters: tuple[int, int, int, int]
    #: the words of each block that was to be read
    blocks: list[list[int]]
