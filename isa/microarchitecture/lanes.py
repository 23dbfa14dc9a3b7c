"""Lanes: which data paths on one sequencer execute the next instruction.

    first = min(rank(depth, DIR, PC) over the lanes that run);  the lanes of that rank execute, the others keep their state

The lane in the deepest call goes first; of lanes at one depth, the lane that is behind: of the least PC forward, of the greatest backward. The
code of a conditional or loop lies before the address at which its lanes meet again, in both directions, so the lanes inside go first. Some
lane is always first, and each instruction that is issued retires, traps or halts in each of its lanes, so no lane waits for ever.
Source: S. Collange, Stack-less SIMT reconvergence at low cost, 2011.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from retrograd.isa.encoding import CODE_SHIFT
from retrograd.isa.microarchitecture.micro_operations import BARREL, MAX_THREADS, MIN_THREADS
from retrograd.isa.table import TABLE

#: the name of the core; each of its lanes has the units of the core small
LANES = "lanes"
#: the largest number of lanes of a core: the host has a mask of 64 bits
MAX_LANES = 64
#: the cores that execute a batch, each element on a lane or a thread -> the numbers of these that the core can have
BATCH_CORES = {LANES: range(1, MAX_LANES + 1), BARREL: range(MIN_THREADS, MAX_THREADS + 1)}
#: bits of the counter of calls; it wraps around
DEPTH = 8
#: codes of the opcodes that leave for a procedure and are met again on its return
CALLS = (TABLE["call"].code, TABLE["uncall"].code)


class Position(NamedTuple):
    """Where a lane stands: PC, DIR, and the number of calls it is in."""

    pc: int
    direction: int
    depth: int = 0

    def rank(self, bits: int) -> int:
        """The place in the order of execution. `bits`: of an address of the code memory; PC counts modulo 2^bits."""
        address, backward = self.pc % (1 << bits), self.direction < 0
        along = (1 << bits) - 1 - address if backward else address
        return ((1 << DEPTH) - 1 - self.depth) << bits + 1 | backward << bits | along


class LaneStep(NamedTuple):
    """A step of a lane: the position before it, and its cycles; 0 for a step that does not retire, since the lane traps or halts."""

    position: Position
    cycles: int


class Issue(NamedTuple):
    """An instruction that was issued: its lanes, and its cycles; 0 if it retired in none of them."""

    lanes: list[int]
    cycles: int


def issued_lanes(positions: Sequence[Position | None], bits: int) -> list[int]:
    """The lanes that execute the next instruction together. None stands for a lane that does not run."""
    ranks = [None if position is None else position.rank(bits) for position in positions]
    first = min((rank for rank in ranks if rank is not None), default=None)
    return [] if first is None else [lane for lane, rank in enumerate(ranks) if rank == first]


def depth_after(depth: int, instruction: int, br: int) -> int:
    """The number of calls after an encoded instruction that retires; `br`: BR before it, 0 where a call leaves for its procedure."""
    if instruction >> CODE_SHIFT not in CALLS:
        return depth
    return (depth + (1 if br == 0 else -1)) % (1 << DEPTH)


def issues_of(traces: Sequence[Sequence[LaneStep]], bits: int) -> Iterator[Issue]:
    """The instructions that a core of lanes issues, from the steps of each lane on its own. The cycles of a batch are the sum of theirs."""
    done = [0] * len(traces)
    while True:
        steps = [trace[at] if at < len(trace) else None for trace, at in zip(traces, done, strict=True)]
        lanes = issued_lanes([None if step is None else step.position for step in steps], bits)
        if not lanes:
            return
        yield Issue(lanes, max(step.cycles for lane in lanes if (step := steps[lane]) is not None))
        for lane in lanes:
            done[lane] += 1
