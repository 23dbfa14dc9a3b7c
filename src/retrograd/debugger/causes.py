"""Causes: the last write of a place before the present step, and the chain of writes that gave it its value.

    last_write(timeline, place)    the instruction that changed it last
    why(timeline, place)           the same; an exchange is followed to the place from which it brought the word

The timeline stays where it is, also where a search is interrupted.
"""

from __future__ import annotations

from dataclasses import dataclass

from retrograd.debugger.places import Place, writers
from retrograd.debugger.timeline import Timeline
from retrograd.isa.diagnostics import Span
from retrograd.isa.encoding import Instruction

#: single steps near a write that changed nothing, before the engine is used again
_NEAR = 256
#: exchanges that `why` follows from place to place
_CHAIN = 64


@dataclass(frozen=True)
class Write:
    """A change of a place: the step and the address of the instruction, and the words before and after it."""

    place: Place
    step: int
    pc: int
    instruction: Instruction
    span: Span | None
    before: int
    after: int


@dataclass(frozen=True)
class Cause:
    """The chain of `why`: the last write first. An exchange or move of a word is followed to the place that held the word before."""

    writes: tuple[Write, ...]
    #: whether the last link holds the value since the beginning
    initial: bool


def change_of(timeline: Timeline, place: Place) -> Write | None:
    """The change that the next instruction makes to a place."""
    pc, step = timeline.machine.pc, timeline.position
    before = int(place.word(timeline.machine))
    if not timeline.one(False):
        timeline.trap = None
        return None
    after = int(place.word(timeline.machine))
    timeline.one(True)
    if before == after:
        return None
    program = timeline.machine.program
    return Write(place, step, pc, program.instructions[pc], program.source.span(pc), before, after)


def last_write(timeline: Timeline, place: Place) -> Write | None:
    """The last change of the place before the present step; None if there is none."""
    with timeline.excursion():
        return _go_to_last_write(timeline, place)


def _go_to_last_write(timeline: Timeline, place: Place) -> Write | None:
    changing = writers(place, timeline.machine)
    near = 0
    while changing and timeline.nearest_at(changing, back=True, near=near):
        timeline.poll()
        found = change_of(timeline, place)
        if found is not None:
            return found
        near = _NEAR
    return None


def why(timeline: Timeline, place: Place) -> Cause:
    """The write that gave the value, and where an exchange only moved it, the write of the place that held it before."""
    writes = list[Write]()
    with timeline.excursion():
        while len(writes) < _CHAIN:
            found = _go_to_last_write(timeline, place)
            if found is None:
                return Cause(tuple(writes), True)
            writes.append(found)
            came_from = _moved_from(timeline, found)
            if came_from is None:
                break
            place = came_from
    return Cause(tuple(writes), False)


def _moved_from(timeline: Timeline, write: Write) -> Place | None:
    """The place whose word an exchange moved into the written place; the machine stands before it."""
    i, machine = write.instruction, timeline.machine
    if i.opcode.name == "swap":
        other = Place(i.ra if write.place == Place(i.rd) else i.rd)
    elif i.opcode.name == "exch":
        address = (int(machine._registers[i.ra]) + i.imm) & machine.format.mask
        other = Place(i.rd) if write.place.memory else Place(address, memory=True)
    else:
        return None
    return other if int(other.word(machine)) == write.after else None
