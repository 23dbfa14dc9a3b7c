"""A debugging session: one run of a program, seen at any of its steps.

    session.step(); session.step(back=True)      leaves the state as it is
    session.to(n)                                gives state n of the reference machine, after any motion before

A motion returns an Event with the reason for which it stopped. Nothing is printed here. A session stands before an instruction.
Forward, a watch stops after the change; backward, it stops before the instruction that made the change.

Cost: runs to breakpoints, registers, and words at static addresses are runs of the engine (`timeline.py`). A watch of a word
that instructions with computed addresses may write, and `until`, are exact but single steps of the reference machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from retrograd.debugger.expressions import Expression
from retrograd.debugger.places import Place, place_named, writers
from retrograd.debugger.timeline import Timeline
from retrograd.debugger.variables import Variable, Word, named, variables
from retrograd.isa.diagnostics import Diagnostic, InputError, Span, nearest
from retrograd.isa.encoding import Instruction
from retrograd.isa.microarchitecture.timing import Execution
from retrograd.simulator.energy.counting import Counts
from retrograd.simulator.machine import Machine, Trap

Reason = Literal["step", "breakpoint", "watch", "condition", "trap", "end", "beginning"]
#: single steps near a write that changed nothing, before the engine is used again
_NEAR = 256
#: single steps back in search of the callers of a procedure
_SEARCHED = 200_000
#: exchanges that `why` follows from place to place
_CHAIN = 64


@dataclass(frozen=True)
class Event:
    """Why a motion stopped, and where."""

    reason: Reason
    step: int
    pc: int
    breakpoint: Breakpoint | None = None
    trap: Trap | None = None
    write: Write | None = None


@dataclass
class Breakpoint:
    """A stop before the instruction at one of the addresses, where `condition` holds, from hit `ignore` + 1 on."""

    number: int
    addresses: frozenset[int]
    text: str
    condition: Expression | None = None
    ignore: int = 0
    hits: int = 0


@dataclass(frozen=True)
class Watch:
    """A stop where a place changes."""

    number: int
    place: Place
    text: str


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


@dataclass(frozen=True)
class Frame:
    """An active call: the address that is next in it, the label of its procedure, and the place in the source."""

    pc: int
    procedure: str
    span: Span | None


class Session:
    """A debugger of one run of a machine, which stands at step `position` of the run."""

    def __init__(self, machine: Machine, position: int = 0) -> None:
        self.machine = machine
        self.timeline = Timeline(machine, position)
        self.breakpoints: dict[int, Breakpoint] = {}
        self.watches: dict[int, Watch] = {}
        self._number = 0
        self._dropped = machine.dropped_bits
        code = machine.program.instructions
        self._calls = frozenset(pc for pc, i in enumerate(code) if i.opcode.name in ("call", "uncall"))

    # ------------------------------------------------------------------ state

    @property
    def position(self) -> int:
        """The number of the present step."""
        return self.timeline.position

    @property
    def pc(self) -> int:
        """The address of the next instruction."""
        return self.machine.pc

    @property
    def span(self) -> Span | None:
        """The place of the next instruction in the source."""
        return self.machine.program.source.span(self.machine.pc)

    def place(self, text: str) -> Place:
        """The place with a name: of a live variable, an element of an array, a register, a word. Raises InputError RG1302."""
        found = named(text, self.machine)
        if isinstance(found, Word):
            return found.place
        if found is not None:
            raise InputError(
                Diagnostic("RG1302", f"`{text[:60]}` is an array: name an element, such as {text[:60]}[0]")
            )
        return place_named(text, self.machine.program, len(self.machine._memory))

    def evaluate(self, text: str) -> Any:
        """The value of an expression now. Raises InputError RG1301, RG1302."""
        return Expression(text, self.machine)(self.machine)

    def variables(self, most: int = 1 << 20) -> list[Variable]:
        """The variables of the source that are live now, those of outer procedures left out, and the arrays at fixed addresses.

        `most`: the number of elements of each array.
        """
        return variables(self.machine, most)

    def set(self, place: Place, word: int) -> None:
        """Change a place. The run goes on, in both directions, from the changed state."""
        words = self.machine.memory if place.memory else self.machine.registers
        words[place.index] = word
        self.timeline.open_here()

    def counts(self) -> Counts:
        """The counts of the steps between the opening of the session and this one: by line, and to be priced."""
        machine, table = self.machine, self.machine.program.table
        executed: dict[tuple[int, Execution], int] = {}
        for way, hits in self.timeline.executed.items():
            for pc, (i, n) in enumerate(zip(machine.program.instructions, hits, strict=True)):
                if n:
                    opcode = i.opcode if way > 0 else table.inverse(i.opcode)
                    executed[pc, Execution(opcode, machine.differentiating, i.ra == i.rb, way)] = n
        return Counts(machine.program, executed, machine.dropped_bits - self._dropped)

    def resolve(self, where: str) -> frozenset[int]:
        """The addresses of a label, `FILE:LINE` or `:LINE`, or `*ADDRESS`. Raises InputError RG1302."""
        program = self.machine.program
        if where in program.labels:
            return frozenset((program.labels[where],))
        number = where.removeprefix("*")
        if number.isdecimal() and len(number) < 10 and int(number) < len(program.code):
            return frozenset((int(number),))
        file, colon, line = where.rpartition(":")
        if colon and line.isdecimal() and len(line) < 10:
            found = self._addresses_of(file, int(line))
            if found:
                return found
        hint = nearest(where, program.labels) or f"write a label, FILE:LINE, or an address to {len(program.code) - 1}"
        raise InputError(Diagnostic("RG1302", f"`{where[:60]}` is no place in the code", hint=hint))

    def _addresses_of(self, file: str, line: int) -> frozenset[int]:
        """The first addresses of a line: those where the code before belongs to another line."""
        source, out, inside = self.machine.program.source, set[int](), False
        for pc in range(len(self.machine.program.code)):
            span = source.span(pc)
            now = span is not None and span.line == line and (not file or span.file.endswith(file))
            if now and not inside:
                out.add(pc)
            inside = now
        return frozenset(out)

    def break_at(self, where: str, condition: str | None = None, ignore: int = 0) -> Breakpoint:
        """Set a breakpoint. Raises InputError RG1301, RG1302."""
        addresses = self.resolve(where)
        test = None if condition is None else Expression(condition, self.machine, condition=True)
        self._number += 1
        made = Breakpoint(self._number, addresses, where, test, ignore)
        self.breakpoints[made.number] = made
        return made

    def watch(self, text: str) -> Watch:
        """Stop where the place with this name changes. Raises InputError RG1302."""
        place = self.place(text)
        self._number += 1
        made = self.watches[self._number] = Watch(self._number, place, text)
        return made

    def delete(self, number: int) -> bool:
        """Remove a breakpoint or watch; whether there was one."""
        return (self.breakpoints.pop(number, None) or self.watches.pop(number, None)) is not None

    # ------------------------------------------------------------------ motion

    def _event(self, reason: Reason = "step", **details: Any) -> Event:
        if self.timeline.trap is not None:
            reason, details = "trap", {"trap": self.timeline.trap}
        return Event(reason, self.position, self.pc, **details)

    def _one(self, back: bool) -> bool:
        return self.timeline.back(1) if back else self.timeline.forward(1)

    def to(self, step: int) -> Event:
        """Move to the step with this number, or to the end of the run. Raises InputError RG1303."""
        if step < 0:
            raise InputError(Diagnostic("RG1303", f"there is no step {step}"))
        whole = self.timeline.to(step)
        return self._event("step" if whole else "end")

    def step(self, *, back: bool = False) -> Event:
        """One instruction."""
        return self._event("step" if self._one(back) else _last(back))

    def step_line(self, *, back: bool = False, over: bool = True) -> Event:
        """To the next instruction of another line; `over`: calls count as one instruction.

        Backward it goes to the first instruction of the stretch of one line that was executed last.
        """
        if back:
            if not self._step_over(back=True):
                return self._event("beginning")
            line, target = self._line(), self.position
            while self._line() == line:
                target = self.position
                if not (self._step_over(back=True) if over else self._one(True)):
                    break
            else:
                self.timeline.to(target)
            return self._event()
        line = self._line()
        while self._line() == line:
            if not (self._step_over(back=False) if over else self._one(False)):
                return self._event("end")
        return self._event()

    def _line(self) -> tuple[str, int] | None:
        span = self.span
        return None if span is None else (span.file, span.line)

    def step_over(self, *, back: bool = False) -> Event:
        """One instruction; a call together with all steps until it returns."""
        return self._event("step" if self._step_over(back=back) else _last(back))

    def _enters(self) -> bool:
        """Whether the next instruction is a call that enters its procedure; with BR set, it is the return from it."""
        return self.pc in self._calls and not self.machine.br

    def _step_over(self, *, back: bool) -> bool:
        if back:
            if not self._one(True):
                return False
            if self.pc not in self._calls or not self.machine.br:
                return True
        elif not self._enters():
            return self._one(False)
        # An inner call of the same instruction enters before it returns.
        call, depth = frozenset((self.pc,)), 0
        while True:
            depth += 1 if self._enters() != back else -1
            if not depth:
                return True if back else self._one(False)
            if back:
                if not self.timeline.last_at(call):
                    return False
            elif not self._one(False) or not self.timeline.next_at(call):
                return False

    def step_out(self, *, back: bool = False) -> Event:
        """To the step after the return from the present procedure; backward, to the call that entered it."""
        depth = 0
        while True:
            if back:
                if not self.timeline.last_at(self._calls):
                    return self._event("beginning")
            elif not self.timeline.next_at(self._calls):
                return self._event("end")
            depth += 1 if self._enters() != back else -1
            if depth < 0:
                return self._event("step" if back or self._one(False) else "end")
            if not back and not self._one(False):
                return self._event("end")

    def resume(self, *, back: bool = False) -> Event:
        """Run to the next breakpoint or change of a watched place, a trap or the end; `back`: to the last one before."""
        addresses = frozenset[int]().union(*(b.addresses for b in self.breakpoints.values()))
        watched = [(w.place, writers(w.place, self.machine)) for w in self.watches.values()]
        stops = addresses.union(*(changing for _, changing in watched))
        near, moved = 0, False
        while True:
            if back or moved:
                if not self._advance(stops, back=back, near=near):
                    return self._event(_last(back))
                hit = self._breakpoint_here(addresses)
                if hit is not None:
                    return self._event("breakpoint", breakpoint=hit)
                near = _NEAR
            write = self._write_here(watched)
            if not back and not self._one(False):
                return self._event("end")
            if write is not None:
                return self._event("watch", write=write)
            moved = True

    def _advance(self, stops: frozenset[int], *, back: bool, near: int) -> bool:
        """Move to the nearest step at one of the addresses: by `near` single steps, then by the engine."""
        if not back and self.pc in stops:
            return True
        for _ in range(near):
            if not self._one(back):
                return not back and self.pc in stops
            if self.pc in stops:
                return True
        return self.timeline.last_at(stops) if back else self.timeline.next_at(stops)

    def _breakpoint_here(self, addresses: frozenset[int]) -> Breakpoint | None:
        if self.pc not in addresses:
            return None
        for found in self.breakpoints.values():
            if self.pc in found.addresses and (found.condition is None or found.condition.holds(self.machine)):
                found.hits += 1
                if found.hits > found.ignore:
                    return found
        return None

    def _write_here(self, watched: list[tuple[Place, frozenset[int]]]) -> Write | None:
        """The change that the next instruction makes to a watched place."""
        here = [place for place, changing in watched if self.pc in changing]
        if not here:
            return None
        pc, step = self.pc, self.position
        before = [int(place.word(self.machine)) for place in here]
        if not self._one(False):
            self.timeline.trap = None
            return None
        after = [int(place.word(self.machine)) for place in here]
        self._one(True)
        for place, old, new in zip(here, before, after, strict=True):
            if old != new:
                program = self.machine.program
                return Write(place, step, pc, program.instructions[pc], program.source.span(pc), old, new)
        return None

    def run_until(self, text: str, *, back: bool = False) -> Event:
        """Single steps until an expression becomes true. Raises InputError RG1301, RG1302."""
        condition = Expression(text, self.machine, condition=True)
        while self._one(back):
            if condition.holds(self.machine):
                return self._event("condition")
        return self._event(_last(back))

    # ------------------------------------------------------------------ causes

    @contextmanager
    def _excursion(self) -> Iterator[None]:
        """Return to the present step, and to the trap before which the session stands."""
        position, trap = self.position, self.timeline.trap
        try:
            yield
        finally:
            self.timeline.to(position)
            self.timeline.trap = trap

    def last_write(self, place: Place) -> Write | None:
        """The last change of the place before the present step; None if there is none. The session stays where it is."""
        with self._excursion():
            return self._go_to_last_write(place)

    def _go_to_last_write(self, place: Place) -> Write | None:
        changing = writers(place, self.machine)
        near = 0
        while changing and self._advance(changing, back=True, near=near):
            found = self._write_here([(place, changing)])
            if found is not None:
                return found
            near = _NEAR
        return None

    def why(self, place: Place) -> Cause:
        """The write that gave the value, and where an exchange only moved it, the write of the place that held it before."""
        writes = list[Write]()
        with self._excursion():
            while len(writes) < _CHAIN:
                found = self._go_to_last_write(place)
                if found is None:
                    return Cause(tuple(writes), True)
                writes.append(found)
                came_from = self._moved_from(found)
                if came_from is None:
                    break
                place = came_from
        return Cause(tuple(writes), False)

    def _moved_from(self, write: Write) -> Place | None:
        """The place whose word an exchange moved into the written place; the session stands before it."""
        i, machine = write.instruction, self.machine
        if i.opcode.name == "swap":
            other = Place(i.ra if write.place == Place(i.rd) else i.rd)
        elif i.opcode.name == "exch":
            address = (int(machine._registers[i.ra]) + i.imm) & machine.format.mask
            other = Place(i.rd) if write.place.memory else Place(address, memory=True)
        else:
            return None
        return other if int(other.word(machine)) == write.after else None

    def frames(self) -> tuple[tuple[Frame, ...], bool]:
        """(the active calls, innermost first; whether the list is complete).

        They are found by single steps back, at most `_SEARCHED` of them. The session stays where it is.
        """
        out = [self._frame()]
        with self._excursion():
            depth = 0
            for _ in range(_SEARCHED):
                if not self._one(True):
                    return tuple(out), True
                if self.pc in self._calls:
                    depth += -1 if self._enters() else 1
                    if depth < 0:
                        out.append(self._frame())
                        depth = 0
            return tuple(out), self.position == 0

    def _frame(self) -> Frame:
        pc, labels = self.pc, self.machine.program.labels
        before = [(address, name) for name, address in labels.items() if address <= pc]
        return Frame(pc, max(before)[1] if before else "", self.span)


def _last(back: bool) -> Reason:
    return "beginning" if back else "end"
