"""A debugging session: one run of a program, seen at any of its steps.

    session.step(); session.step(back=True)      leaves the state as it is
    session.to(n)                                gives state n of the reference machine, after any motion before

A motion returns an Event with the reason for which it stopped. Nothing is printed here. A session stands before an instruction.
Forward, a watch stops after the change; backward, it stops before the instruction that made the change.

Cost: runs to breakpoints, registers, and words at static addresses are runs of the engine (`_timeline.py`). A watch of a word
that instructions with computed addresses may write, and `until`, are exact but single steps of the reference machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from retrograd.isa.diagnostics import Diagnostic, InputError, Span, nearest
from retrograd.isa.microarchitecture.schedule import Execution
from retrograd.observe._timeline import Calls, Cause, Frame, Timeline, Write, change_of, last_write, why
from retrograd.observe._variables import (
    Breakpoint,
    Expression,
    HitCondition,
    LogMessage,
    Place,
    Variable,
    Watch,
    Word,
    entries,
    line_addresses,
    named,
    place_named,
    variables,
    writers,
)
from retrograd.simulator.energy.counts import Counts
from retrograd.simulator.machine import Machine, Trap

Reason = Literal["step", "breakpoint", "watch", "condition", "trap", "end", "beginning"]
#: single steps near a write that changed nothing, before the engine is used again
_NEAR = 256


@dataclass(frozen=True)
class Event:
    """Why a motion stopped, and where."""

    reason: Reason
    step: int
    pc: int
    breakpoint: Breakpoint | None = None
    trap: Trap | None = None
    write: Write | None = None
    watch: Watch | None = None


class StopsChanged(Exception):
    """Raised by `Session.between` after it changed breakpoints: `resume` goes on with the new ones."""


class Session:
    """A debugger of one run of a machine, which stands at step `position` of the run."""

    def __init__(self, machine: Machine, position: int = 0) -> None:
        self.machine = machine
        self.timeline = Timeline(machine, position)
        self.breakpoints: dict[int, Breakpoint] = {}
        self.watches: dict[int, Watch] = {}
        #: receives the texts of breakpoints with a message
        self.log: Callable[[str], None] = lambda text: None
        self._number = 0
        self._dropped = machine.dropped_bits
        self.calls = Calls(self.timeline)

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

    @property
    def between(self) -> Callable[[], None] | None:
        """Called between the parts of long motions; an exception that it raises ends the motion where the machine stands."""
        return self.timeline.between

    @between.setter
    def between(self, hook: Callable[[], None] | None) -> None:
        self.timeline.between = hook

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

    def turn(self) -> None:
        """Let the machine face the other way: the next step takes back the last one. Steps are counted anew, from 0 here.

        The inverse is `turn` again. Trap: the run before the turn is no longer behind the session, but ahead of it.
        """
        self.machine.turn()
        self.timeline.begin_here()
        self._dropped = self.machine.dropped_bits

    def counts(self) -> Counts:
        """The counts of the steps between the opening of the session and this one: by line, and to be priced."""
        machine = self.machine
        executed: dict[tuple[int, Execution], int] = {}
        for way, hits in self.timeline.executed.items():
            for pc, n in enumerate(hits):
                if n:
                    executed[pc, Execution.at(machine.program, pc, machine.differentiating, way)] = n
        return Counts(machine.program, executed, machine.dropped_bits - self._dropped, core=machine.core)

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
        """The addresses at which a breakpoint of a line stops."""
        found = line_addresses(self.machine.program)
        return frozenset[int]().union(*(lines.get(line, ()) for name, lines in found.items() if name.endswith(file)))

    def break_at(
        self, where: str, condition: str | None = None, *, hit: str | None = None, message: str | None = None
    ) -> Breakpoint:
        """Set a breakpoint at a place in the code; at a procedure, it stops once a call. Raises InputError RG1301, RG1302."""
        each = where.removeprefix("*").isdecimal()
        return self.break_on(self.resolve(where), where, condition, hit=hit, message=message, each=each)

    def break_on(
        self,
        addresses: frozenset[int],
        text: str,
        condition: str | None = None,
        *,
        hit: str | None = None,
        message: str | None = None,
        each: bool = False,
    ) -> Breakpoint:
        """Set a breakpoint on addresses; `each`: also at the returns of a procedure. Raises InputError RG1301, RG1302."""
        made = Breakpoint(
            self._number + 1,
            addresses,
            text,
            frozenset() if each else addresses & entries(self.machine.program),
            self._condition(condition),
            None if hit is None else HitCondition(hit),
            None if message is None else LogMessage(message, self.machine),
        )
        self._number += 1
        self.breakpoints[made.number] = made
        return made

    def _condition(self, text: str | None) -> Expression | None:
        return None if text is None else Expression(text, self.machine, condition=True)

    def watch(self, text: str, condition: str | None = None, *, hit: str | None = None) -> Watch:
        """Stop where the place with this name changes. Raises InputError RG1301, RG1302."""
        place = self.place(text)
        tests = self._condition(condition), None if hit is None else HitCondition(hit)
        self._number += 1
        made = self.watches[self._number] = Watch(self._number, place, text, *tests)
        return made

    def delete(self, number: int) -> bool:
        """Remove a breakpoint or watch; whether there was one."""
        return (self.breakpoints.pop(number, None) or self.watches.pop(number, None)) is not None

    # ------------------------------------------------------------------ motion

    def _event(self, reason: Reason = "step", **details: Any) -> Event:
        if self.timeline.trap is not None:
            reason, details = "trap", {"trap": self.timeline.trap}
        return Event(reason, self.position, self.pc, **details)

    def to(self, step: int) -> Event:
        """Move to the step with this number, or to the end of the run. Raises InputError RG1303."""
        if step < 0:
            raise InputError(Diagnostic("RG1303", f"there is no step {step}"))
        whole = self.timeline.far(step)
        return self._event("step" if whole else "end")

    def step(self, *, back: bool = False) -> Event:
        """One instruction."""
        return self._event("step" if self.timeline.one(back) else _last(back))

    def step_line(self, *, back: bool = False, over: bool = True) -> Event:
        """To the next instruction of another line; `over`: calls count as one instruction.

        Backward it goes to the first instruction of the stretch of one line that was executed last.
        """
        if back:
            if not self.calls.step_over(back=True):
                return self._event("beginning")
            line, target = self._line(), self.position
            while self._line() == line:
                self.timeline.poll()
                target = self.position
                if not (self.calls.step_over(back=True) if over else self.timeline.one(True)):
                    break
            else:
                self.timeline.to(target)
            return self._event()
        line = self._line()
        while self._line() == line:
            self.timeline.poll()
            if not (self.calls.step_over(back=False) if over else self.timeline.one(False)):
                return self._event("end")
        return self._event()

    def _line(self) -> tuple[str, int] | None:
        span = self.span
        return None if span is None else (span.file, span.line)

    def step_over(self, *, back: bool = False) -> Event:
        """One instruction; a call together with all steps until it returns."""
        return self._event("step" if self.calls.step_over(back=back) else _last(back))

    def step_out(self, *, back: bool = False) -> Event:
        """To the step after the return from the present procedure; backward, to the call that entered it."""
        return self._event("step" if self.calls.step_out(back=back) else _last(back))

    def resume(self, *, back: bool = False, here: bool = False) -> Event:
        """Run to the next breakpoint or change of a watched place, a trap or the end; `back`: to the last one before.

        `here`: a breakpoint at the present step is one, too.
        """
        return self._run_to_stop(back, here=here)

    def stopping(self, move: Callable[[], Event]) -> Event:
        """A motion that also stops at breakpoints and watches on its way, as `stopping(session.step_over)`.

        The motion is made first. Only where it executed an instruction that has a stop, the session goes back and runs to the stop.
        """
        stops = frozenset[int]().union(*self._stops())
        begun, before = self.position, self._executed()
        event = move()
        target, after = self.position, self._executed()
        if abs(target - begun) > 1 and any(before[pc] != after[pc] for pc in stops):
            trap = self.timeline.trap
            self.timeline.to(begun)
            found = self._run_to_stop(target < begun, target)
            if found.reason in ("breakpoint", "watch"):
                return found
            self.timeline.to(target)
            self.timeline.trap = trap
        return event

    def _executed(self) -> list[int]:
        ahead, behind = self.timeline.executed[+1], self.timeline.executed[-1]
        return [a + b for a, b in zip(ahead, behind, strict=True)]

    def _stops(self) -> tuple[frozenset[int], frozenset[int]]:
        """The addresses of breakpoints, and those of instructions that may write a watched place."""
        return (
            frozenset[int]().union(*(b.addresses for b in self.breakpoints.values())),
            frozenset[int]().union(*(writers(w.place, self.machine) for w in self.watches.values())),
        )

    def _run_to_stop(self, back: bool, target: int | None = None, *, here: bool = False) -> Event:
        """`resume`; with `target`, to that step at most, where the event is a step."""
        moved = here

        def passed() -> bool:
            return target is not None and (self.position <= target if back else self.position >= target)

        while True:
            addresses, changing = self._stops()
            watched = [(w, writers(w.place, self.machine)) for w in self.watches.values()]
            stops, near = addresses | changing, 0
            try:
                while True:
                    self.timeline.poll()
                    if back or moved:
                        if passed():
                            return self._event()
                        if not self.timeline.nearest_at(stops, back=back, near=near):
                            return self._event(_last(back))
                        if passed() and self.position != target:
                            return self._event()
                        hit = self._breakpoint_here(addresses)
                        if hit is not None:
                            return self._event("breakpoint", breakpoint=hit)
                        near = _NEAR
                    writes = self._writes_here(watched)
                    if not back and not self.timeline.one(False):
                        return self._event("end")
                    moved = True
                    for watch, write in writes:
                        if self._met(watch, after=not back):
                            return self._event("watch", write=write, watch=watch)
            except StopsChanged:
                continue

    def _passes(self, addresses: frozenset[int]) -> int:
        """How often the instructions at the addresses were executed before this step."""
        ahead, behind = self.timeline.executed[+1], self.timeline.executed[-1]
        return sum(ahead[pc] + behind[pc] for pc in addresses)

    def _calls(self, addresses: frozenset[int]) -> int:
        """How often a call has entered at the addresses before this step.

        The instruction behind an entry is the first of a call that runs forward; the one before it, of a call that runs backward.
        """
        ahead, behind = self.timeline.executed[+1], self.timeline.executed[-1]
        return sum(sum(ahead[pc + 1 : pc + 2]) + (behind[pc - 1] if pc else 0) for pc in addresses)

    def _breakpoint_here(self, addresses: frozenset[int]) -> Breakpoint | None:
        if self.pc not in addresses:
            return None
        stop = None
        for found in list(self.breakpoints.values()):
            if self.pc not in found.addresses or (
                found.condition is not None and not found.condition.holds(self.machine)
            ):
                continue
            if self.pc in found.entries and not self.machine.br:
                continue
            if found.hit is not None:
                passes = self._passes(found.addresses - found.entries) + self._calls(found.entries)
                if not found.hit(passes + 1):
                    continue
            if found.message is not None:
                self.log(found.message(self.machine))
            elif stop is None:
                stop = found
        return stop

    def _met(self, watch: Watch, *, after: bool) -> bool:
        """Whether the conditions of a watch hold at a write; `after`: the instruction was executed."""
        if watch.condition is not None and not watch.condition.holds(self.machine):
            return False
        passes = self._passes(writers(watch.place, self.machine))
        return watch.hit is None or watch.hit(passes + (not after))

    def _writes_here(self, watched: list[tuple[Watch, frozenset[int]]]) -> list[tuple[Watch, Write]]:
        """The changes that the next instruction makes to watched places."""
        found = [(watch, change_of(self.timeline, watch.place)) for watch, changing in watched if self.pc in changing]
        return [(watch, write) for watch, write in found if write is not None]

    def run_until(self, text: str, *, back: bool = False) -> Event:
        """Single steps until an expression becomes true. Raises InputError RG1301, RG1302."""
        condition = Expression(text, self.machine, condition=True)
        while self.timeline.one(back):
            self.timeline.poll()
            if condition.holds(self.machine):
                return self._event("condition")
        return self._event(_last(back))

    # ------------------------------------------------------------------ causes

    def last_write(self, place: Place) -> Write | None:
        """The last change of the place before the present step; None if there is none. The session stays where it is."""
        return last_write(self.timeline, place)

    def why(self, place: Place) -> Cause:
        """The write that gave the value, and where an exchange only moved it, the write of the place that held it before."""
        return why(self.timeline, place)

    @contextmanager
    def at(self, step: int) -> Iterator[None]:
        """The session stands at another step within the block. Raises InputError RG1303."""
        with self.timeline.excursion():
            self.timeline.to(step)
            yield

    def frames(self) -> tuple[tuple[Frame, ...], bool]:
        """(the active calls, innermost first; whether the list is complete). The session stays where it is."""
        return self.calls.frames()


def _last(back: bool) -> Reason:
    return "beginning" if back else "end"
