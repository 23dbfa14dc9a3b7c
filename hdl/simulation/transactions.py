"""Transactions with simulated hardware: an order and its report, the same for every simulator.

An order writes words, sets PC, BR and DIR, executes a number of instructions and reads words. A simulator carries out orders
in sequence on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retrograd.hdl.core.ports import Space
from retrograd.hdl.microword import TrapCause


class Change(NamedTuple):
    """The change of one location: which halves were written (1 the word, 2 the cotangent), and both before and after."""

    written: int
    word_before: int
    cotangent_before: int
    word_after: int
    cotangent_after: int


class Record(NamedTuple):
    """One record of the retirement port; PC and BR are signed."""

    trap: TrapCause
    instruction: int
    pc_before: int
    pc_after: int
    br_before: int
    br_after: int
    backward_before: bool
    backward_after: bool
    #: of all instructions that have retired since the counters were cleared
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
    """One order. None leaves PC, BR or DIR unchanged."""

    #: (space, address, word)
    writes: Sequence[tuple[Space, int, int]] = ()
    pc: int | None = None
    br: int | None = None
    backward: bool | None = None
    #: then reverse the machine
    turn: bool = False
    #: forget discarded cotangents
    forget: bool = False
    #: set the counters to zero
    clear: bool = False
    differentiate: bool = False
    overflow: bool = True
    strict: bool = False
    #: the largest number of instructions to execute
    steps: int = 0
    #: keep the record of the last instruction only
    last_only: bool = False
    code_size: int = 0
    data_size: int = 0
    #: (space, first address, number of words)
    reads: Sequence[tuple[Space, int, int]] = ()


@dataclass(frozen=True)
class OrderReport:
    """The outcome of an order."""

    #: one record for each retired instruction and for the trap; or only the last
    records: list[Record]
    halted: bool
    pc: int
    br: int
    backward: bool
    #: cycles, instructions, bits toggled, bits erased, since the counters were cleared
    counters: tuple[int, int, int, int]
    #: the words of each block that was read
    blocks: list[list[int]]


@dataclass(frozen=True)
class BatchReport:
    """The outcome of one order for each lane, which the lanes execute together."""

    lanes: list[OrderReport]
    #: the lanes of each instruction that was issued, a bit each; empty where only last records are kept
    issues: list[int]
    #: cycles, and number, of the issued instructions that retired in a lane, since the counters were cleared
    cycles: int
    issued: int


def need_common(orders: Sequence[Order], lanes: int) -> Order:
    """The first of the orders for the lanes. Raises ValueError if there is not one for each lane, or if modes or sizes differ."""
    if len(orders) != lanes:
        raise ValueError(f"{len(orders)} orders for {lanes} lanes")

    def common(order: Order) -> tuple[int | bool, ...]:
        return (
            order.differentiate, order.overflow, order.strict, order.last_only, order.code_size, order.data_size,
        )  # fmt: skip

    if len({common(order) for order in orders}) > 1:
        raise ValueError("the lanes have one program and the same modes")
    return orders[0]
