"""A timeline: the steps of one run, numbered from its beginning, on a machine that moves to any of them.

    state n  --instruction n-->  state n + 1

Long moves are runs of the machine's engine. For each address the timeline counts how often its instruction stands before the
present step. This count never falls as the step number grows, so the next or last step at an address is found by runs of growing
length and a binary search over step numbers: exactly, in about twice the distance, without a log.

A step back over an `erase` has no inverse. The timeline then begins anew from the state in which it was opened.

A long move can be interrupted. `between` is called between its parts, where the machine stands at a step, and may raise.
A search calls it only where no step that it looks for has been passed.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from retrograd.isa.diagnostics import Diagnostic, InputError, Span
from retrograd.isa.encoding import Instruction, inverse, write
from retrograd.isa.files import read_file, write_file
from retrograd.isa.microarchitecture.schedule import Execution
from retrograd.isa.program import Program
from retrograd.observe._variables import Place, writers, written_registers
from retrograd.simulator.machine import Machine, Stop, Trap, restore, snapshot
from retrograd.simulator.stores import Store

#: moves of fewer steps are single steps; the first and the longest run of a search
_FEW, _FIRST, _LONGEST = 16, 64, 1 << 24
#: an excursion returns from a run of that length, in steps, by a copy of the state
_FAR = 1 << 16
#: seconds of a part of a long move; a part that takes less is followed by a longer part
_PART = 0.05


class Timeline:
    """A machine with the number of its step. `position` is that of the machine's present state."""

    def __init__(self, machine: Machine, position: int = 0) -> None:
        self.machine = machine
        self.position = position
        #: direction -> how often the instruction at each address was executed between the opening and the present step
        self.executed: dict[int, list[int]] = {way: [0] * len(machine.program.code) for way in (+1, -1)}
        #: called between the parts of long moves; it may raise to end the move
        self.between: Callable[[], None] | None = None
        #: the trap before which the machine stands
        self.trap: Trap | None = None
        table = machine.program.table
        self._turns = [i.opcode.turns or table.inverse(i.opcode).turns for i in machine.program.instructions]
        self._erases = any(i.opcode.erased_words for i in machine.program.instructions)
        self._opened: tuple[int, Any, Any] = position, None, None
        #: within an excursion, the state before its first long run
        self._away, self._mark = False, self._opened
        self.open_here()

    def open_here(self) -> None:
        """Let this state be the one from which the timeline begins anew, after a change from outside."""
        self._opened = self._copied()

    def _copied(self) -> tuple[int, Any, Any]:
        return self.position, snapshot(self.machine), {way: list(hits) for way, hits in self.executed.items()}

    def _return_to(self, copied: tuple[int, Any, Any]) -> None:
        self.position, state, executed = copied
        restore(self.machine, state)
        self.executed = {way: list(hits) for way, hits in executed.items()}

    def begin_here(self) -> None:
        """Count steps from 0 at this state, before which there is no step."""
        self.position, self.trap = 0, None
        for hits in self.executed.values():
            hits[:] = [0] * len(hits)
        self.open_here()

    def poll(self) -> None:
        """Call `between`, at a step where a motion may end."""
        if self.between is not None:
            self.between()

    @contextmanager
    def excursion(self) -> Iterator[None]:
        """Return to the present step after the block, and to the trap before which the machine stands."""
        position, trap, outer = self.position, self.trap, (self._away, self._mark)
        self._away, self._mark = True, (position, None, None)
        try:
            yield
        finally:
            mark, (self._away, self._mark) = self._mark, outer
            if mark[1] is not None and abs(mark[0] - position) < abs(self.position - position):
                self._return_to(mark)
            self.to(position)
            self.trap = trap

    # ------------------------------------------------------------------ moves

    def one(self, back: bool) -> bool:
        """Take one step, or take one back; False if there is none."""
        return self.back(1) if back else self.forward(1)

    def to(self, position: int) -> bool:
        """Move to the step; False where the run ends or traps before it. Raises InputError RG1303."""
        if position < self.position:
            return self.back(self.position - position)
        return self.forward(position - self.position)

    def far(self, position: int) -> bool:
        """Move to the step as `to`, in parts between which the move can be interrupted. Raises InputError RG1303."""
        if self.between is None:
            return self.to(position)
        part = _FIRST
        while abs(position - self.position) > part:
            self.between()
            begun = time.monotonic()
            if not self.to(self.position + (part if position > self.position else -part)):
                return False
            part = self._longer(part, begun)
        return self.to(position)

    def forward(self, steps: int) -> bool:
        """Take the steps; False if the run ended or trapped before the last of them."""
        self.trap = None
        wanted = self.position + steps
        try:
            if steps < _FEW:
                while self.position < wanted and self._step():
                    pass
            else:
                self._run(steps, +1)
        except Trap as trap:
            self.trap = trap
        return self.position == wanted

    def back(self, steps: int) -> bool:
        """Take the steps back; False if the beginning came first. Raises InputError RG1303."""
        self.trap = None
        target = max(self.position - steps, 0)
        reached = target == self.position - steps
        before = self.position
        try:
            if before - target < _FEW:
                while self.position > target and self._step_back():
                    pass
            else:
                self._run(before - target, -1)
        except Trap:
            self._begin_anew(target, before)
        return reached and self.position == target

    def _step(self) -> bool:
        machine = self.machine
        pc, way = machine._pc, machine._direction
        if not machine.step():
            return False
        self.executed[way][pc] += 1
        self.position += 1
        return True

    def _step_back(self) -> bool:
        machine = self.machine
        if not machine.step_back():
            return False
        self.executed[machine._direction][machine._pc] -= 1
        self.position -= 1
        return True

    def _run(self, steps: int, sign: int) -> None:
        """Run on the engine. The counts of the machine are added to those of the timeline, also where it traps."""
        machine = self.machine
        if self._away and steps >= _FAR and self._mark[1] is None:
            self._mark = self._copied()
        before = {way: list(hits) for way, hits in machine.executed.items()}
        try:
            if sign > 0:
                machine.run(steps)
            else:
                machine.run_back(steps)
        finally:
            taken = 0
            for way, hits in machine.executed.items():
                for pc, (now, then) in enumerate(zip(hits, before[way], strict=True)):
                    if now != then:
                        taken += now - then
                        # Taken back, an instruction counts in the other direction; but an instruction that turns the machine in its own direction.
                        mine = way if sign > 0 or self._turns[pc] else -way
                        self.executed[mine][pc] += sign * int(now - then)
            self.position += sign * int(taken)

    def _begin_anew(self, target: int, before: int) -> None:
        opened = self._opened[0]
        if target < opened:
            self.forward(before - self.position)
            between = "an erased word lies between" if self._erases else "the way back from the changed state traps"
            message = f"step {target} lies before the beginning of the session, and {between}"
            raise InputError(Diagnostic("RG1303", message))
        self._return_to(self._opened)
        self.forward(target - opened)

    # ------------------------------------------------------------------ search

    def _hits(self, addresses: Collection[int]) -> int:
        ahead, behind = self.executed[+1], self.executed[-1]
        return sum(ahead[pc] + behind[pc] for pc in addresses)

    def nearest_at(self, stops: Collection[int], *, back: bool, near: int) -> bool:
        """Move to the nearest step at one of the addresses, forward from here on: by `near` single steps, then by the engine."""
        if not back and self.machine.pc in stops:
            return True
        for _ in range(near):
            if not self.one(back):
                return not back and self.machine.pc in stops
            if self.machine.pc in stops:
                return True
        return self.last_at(stops) if back else self.next_at(stops)

    def next_at(self, addresses: Collection[int]) -> bool:
        """Move to the first step, from here on, whose instruction is at one of the addresses; False at the end or a trap.

        Standing at the end or before a trap, at one of the addresses, is a hit too.
        """
        hits, chunk = self._hits(addresses), _FIRST
        while True:
            low = self.position
            self.poll()
            begun = time.monotonic()
            whole = self.forward(chunk)
            if self._hits(addresses) > hits:
                high = self.position
                while high - low > 1:
                    self.to((low + high) // 2)
                    if self._hits(addresses) > hits:
                        high = self.position
                    else:
                        low = self.position
                self.to(low)
                return True
            if not whole:
                return self.machine.pc in addresses
            chunk = self._longer(chunk, begun)

    def last_at(self, addresses: Collection[int]) -> bool:
        """Move back to the last step before, whose instruction is at one of the addresses; False at the beginning."""
        hits, chunk = self._hits(addresses), _FIRST
        while True:
            high = self.position
            self.poll()
            begun = time.monotonic()
            whole = self.back(chunk)
            if self._hits(addresses) < hits:
                low = self.position
                while high - low > 1:
                    self.to((low + high) // 2)
                    if self._hits(addresses) < hits:
                        low = self.position
                    else:
                        high = self.position
                self.to(low)
                return True
            if not whole or not self.position:
                return False
            chunk = self._longer(chunk, begun)

    def _longer(self, part: int, begun: float) -> int:
        """The steps of the next part of a move. Back over an `erase` each part is a run from the opening: few parts are better."""
        quick = time.monotonic() - begun < _PART
        return min(part * 4, _LONGEST) if quick or self._erases else part


# -----------------------------------------------------------------------------
# Recordings: every step of a bounded run with its changes, for pictures and traces.
#
#     state n + 1 = state n with the changes of step n;   state n = state n + 1 with them undone
#
# A recording has the state at its beginning and the words that each step changed. The reference machine runs, so a recording costs
# about a microsecond and a few hundred bytes for a step; it is bounded by its number of steps.

#: the steps that a recording has at most unless another number is named
STEPS = 20_000


class Bank(Enum):
    """The store that a changed word lies in."""

    REGISTER = "r"
    MEMORY = "m"
    REGISTER_COTANGENT = "dr"
    MEMORY_COTANGENT = "dm"


class Change(NamedTuple):
    """A word that a step changed."""

    bank: Bank
    number: int
    before: int
    after: int


class Step(NamedTuple):
    """An executed step: its instruction's address, the direction before it, D, BR behind it, and its changes."""

    pc: int
    direction: int
    differentiating: bool
    br: int
    changes: tuple[Change, ...]
    #: bits of cotangents that the step dropped
    dropped_bits: int = 0

    def execution(self, program: Program) -> Execution:
        """The executed instruction with its direction and D, on which its cycles and its energy depend."""
        return Execution.at(program, self.pc, self.differentiating, self.direction)

    def text(self, program: Program) -> str:
        """The instruction as assembly text; backward, its inverse."""
        i = program.instructions[self.pc]
        return write(i if self.direction > 0 else inverse(i, program.table))


@dataclass
class Recording:
    """A part of a run: the words that are not zero at its beginning, its steps, and the reason of its end."""

    program: Program
    #: (bank, number) -> word, of the words that are not zero at the beginning
    start: dict[tuple[Bank, int], int]
    memory_words: int
    #: the number of the first step, counted from the beginning of the run
    first: int = 0
    steps: list[Step] = field(default_factory=list)
    #: (pc, direction, D) behind the last step
    last: tuple[int, int, bool] = (0, 1, False)
    #: "halted", "limit", or the code of a trap
    end: str = "limit"
    message: str = ""

    def states(self) -> Iterator[dict[tuple[Bank, int], int]]:
        """The words that are not zero before each step, and after the last one: one dictionary, changed in place."""
        words = dict(self.start)
        yield words
        for step in self.steps:
            for bank, number, _, after in step.changes:
                if after:
                    words[bank, number] = after
                else:
                    words.pop((bank, number), None)
            yield words


class Recorder:
    """Records the steps of a machine: the `observe` of its runs. A run may go on in another mode, such as back with D = 1."""

    def __init__(self, machine: Machine, first: int = 0) -> None:
        self._machine = machine
        self._shadow = {bank: list(store) for bank, store in _stores(machine).items()}
        start = {(bank, n): word for bank, store in self._shadow.items() for n, word in enumerate(store) if word}
        self.recording = Recording(machine.program, start, len(machine.memory), first)
        self._direction, self._dropped = machine.direction, machine.dropped_bits

    def begin_differentiating(self) -> None:
        """Take over the cotangents that were set between two runs, as a change at the last step."""
        for bank, store in _stores(self._machine).items():
            if bank not in self._shadow:
                self._shadow[bank] = [0] * len(store)
        changes = [
            Change(bank, n, old, new)
            for bank, store in _stores(self._machine).items()
            for n, (old, new) in enumerate(zip(self._shadow[bank], store, strict=True))
            if old != new
        ]
        for change in changes:
            self._shadow[change.bank][change.number] = change.after
        steps = self.recording.steps
        if steps and changes:
            steps[-1] = steps[-1]._replace(changes=(*steps[-1].changes, *changes))
        elif changes:
            self.recording.start |= {(c.bank, c.number): c.after for c in changes}
        self._direction = self._machine.direction

    def __call__(self, machine: Machine, pc: int) -> None:
        """Note the step that has executed the instruction at pc."""
        i = machine.program.instructions[pc]
        changes = []
        stores = _stores(machine)
        for bank, number in _places(i, machine, stores):
            old, new = self._shadow[bank][number], int(stores[bank][number])
            if old != new:
                changes.append(Change(bank, number, old, new))
                self._shadow[bank][number] = new
        dropped = machine.dropped_bits
        step = Step(pc, self._direction, machine.differentiating, machine.br, tuple(changes), dropped - self._dropped)
        self._direction, self._dropped = machine.direction, dropped
        self.recording.steps.append(step)

    def run(self, limit: int) -> bool:
        """Run until the recording has `limit` steps; whether the run halted before."""
        recording, machine = self.recording, self._machine
        try:
            stop = machine.run(limit - len(recording.steps), observe=self).stop
        except Trap as trap:
            recording.end, recording.message = trap.diagnostics[0].code, trap.diagnostics[0].message
            return False
        finally:
            recording.last = machine.pc, machine.direction, machine.differentiating
        recording.end = stop.value
        return stop is Stop.HALTED


def _stores(machine: Machine) -> dict[Bank, Store]:
    found: dict[Bank, Store] = {Bank.REGISTER: machine._registers, Bank.MEMORY: machine._memory}
    if machine._cotangents is not None:
        found[Bank.REGISTER_COTANGENT] = machine._cotangents.registers
        found[Bank.MEMORY_COTANGENT] = machine._cotangents.memory
    return found


def _places(i: Instruction, machine: Machine, stores: dict[Bank, Store]) -> list[tuple[Bank, int]]:
    """The places that an instruction or its inverse may have changed: its results, and with D = 1 the cotangents of all operands."""
    memory = "m" in i.opcode.writes or "m" in i.opcode.reads
    address = (int(machine._registers[i.ra]) + i.imm) & machine.format.mask if memory else 0
    places = [(Bank.REGISTER, n) for n in sorted(written_registers(i))]
    if memory:
        places.append((Bank.MEMORY, address))
    if Bank.REGISTER_COTANGENT in stores:
        places += [(Bank.REGISTER_COTANGENT, n) for n in sorted({i.rd, i.ra, i.rb})]
        if memory:
            places.append((Bank.MEMORY_COTANGENT, address))
    return places


def record(machine: Machine, limit: int = STEPS, first: int = 0) -> Recording:
    """The recording of the next `limit` steps of a machine; `first`: the number of the step before which it stands."""
    recorder = Recorder(machine, first)
    recorder.run(limit)
    return recorder.recording


# -----------------------------------------------------------------------------
# Saved states of a machine: a JSON document with a version and the digest of the program.
#
#     load_state(machine, read(save_state(machine, step)))    leaves the machine and the step as they are
#
# Registers and words of memory that are zero are left out. Every number of a document is checked before the machine changes.

SCHEMA = "retrograd.state/1"


def program_digest(program: Program) -> str:
    """The digest of code, data, size of memory and format."""
    text = json.dumps([list(program.code), list(program.data), program.memory, str(program.format)])
    return hashlib.sha256(text.encode()).hexdigest()


def save_state(path: str, machine: Machine, step: int) -> None:
    """Write the state to a file, which is replaced as a whole. Raises InputError; RG1304 for a machine with cotangents."""
    if machine._cotangents is not None:
        raise InputError(Diagnostic("RG1304", "the state of a machine with cotangents has no file format"))
    document = {
        "schema": SCHEMA, "program": program_digest(machine.program), "step": step, "pc": machine.pc, "br": machine.br,
        "direction": machine.direction, "words": len(machine.memory),
        "registers": _nonzero(machine.registers), "memory": _nonzero(machine.memory),
    }  # fmt: skip
    write_file(path, json.dumps(document) + "\n")


def _nonzero(words: Any) -> dict[str, int]:
    return {str(i): int(word) for i, word in enumerate(words) if word}


def load_state(path: str, machine: Machine) -> int:
    """Set the machine to the state of a file; returns its step. Raises InputError RG0501, RG0514, RG1304."""
    try:
        document = json.loads(read_file(path))
    except (ValueError, RecursionError):
        raise _fault(path, "it is no JSON document") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise _fault(path, f"its schema is not {SCHEMA}")
    if document.get("program") != program_digest(machine.program):
        raise _fault(path, "it is of another program")
    size, mask, sign = len(machine.memory), machine.format.mask, machine.format.sign
    step = _number(path, document, "step", 0, 1 << 63)
    pc = _number(path, document, "pc", -mask, mask)
    br = _number(path, document, "br", -sign, sign - 1)
    direction = _number(path, document, "direction", -1, 1)
    if direction == 0 or document.get("words") != size:
        raise _fault(path, f"it is of a machine with {document.get('words')!r:.20} words of memory, not {size}")
    registers = _words(path, document, "registers", len(machine.registers), mask)
    memory = _words(path, document, "memory", size, mask)
    machine.registers[:] = registers
    machine.memory[:] = memory
    machine.pc, machine.br, machine.direction = pc, br, direction
    return step


def _words(path: str, document: dict[str, Any], name: str, size: int, mask: int) -> list[int]:
    found, out = document.get(name), [0] * size
    if not isinstance(found, dict):
        raise _fault(path, f"`{name}` is missing")
    for text in found:
        if not text.isdecimal() or len(text) > 20 or int(text) >= size:
            raise _fault(path, f"`{name}` has no {text:.20}")
        out[int(text)] = _number(path, found, text, 0, mask)
    return out


def _number(path: str, document: dict[str, Any], name: str, low: int, high: int) -> int:
    value = document.get(name)
    if type(value) is not int or not low <= value <= high:
        raise _fault(path, f"`{name}` is {value!r:.40}")
    return value


def _fault(path: str, reason: str) -> InputError:
    return InputError(Diagnostic("RG1304", f"{path} is no state of this program: {reason}"))


# -----------------------------------------------------------------------------
# Active calls of a run: steps over calls and out of them, in both directions, and the list of frames.
#
# A call instruction is executed twice: it enters its procedure, and with BR set it is the return from it. So calls are followed by
# their addresses, at the speed of the engine.

#: single steps near a call that is searched, and the calls and returns that a search for callers passes
_NEAR_CALL, _SEARCHED = 32, 2000


@dataclass(frozen=True)
class Frame:
    """An active call: the address that is next in it, the label of its procedure, and the place in the source.

    `step`: that of the call; of the innermost frame, the present step.
    """

    pc: int
    procedure: str
    span: Span | None
    step: int = 0


class Calls:
    """The calls of one timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline, self.machine = timeline, timeline.machine
        code = self.machine.program.instructions
        self.addresses = frozenset(pc for pc, i in enumerate(code) if i.opcode.name in ("call", "uncall"))

    def enters(self) -> bool:
        """Whether the next instruction is a call that enters its procedure; with BR set, it is the return from it."""
        return self.machine.pc in self.addresses and not self.machine.br

    def step_over(self, *, back: bool) -> bool:
        """Take one instruction; a call together with all steps until it returns. False if the run ends first."""
        if back:
            if not self.timeline.one(True):
                return False
            if self.machine.pc not in self.addresses or not self.machine.br:
                return True
        elif not self.enters():
            return self.timeline.one(False)
        # An inner call of the same instruction enters before it returns.
        call, depth = frozenset((self.machine.pc,)), 0
        while True:
            depth += 1 if self.enters() != back else -1
            if not depth:
                return True if back else self.timeline.one(False)
            if back:
                if not self.timeline.last_at(call):
                    return False
            elif not self.timeline.one(False) or not self.timeline.next_at(call):
                return False

    def step_out(self, *, back: bool) -> bool:
        """Move behind the return from the present procedure; backward, to the call that entered it. False if there is none."""
        depth = 0
        while True:
            if back:
                if not self.timeline.last_at(self.addresses):
                    return False
            elif not self.timeline.next_at(self.addresses):
                return False
            depth += 1 if self.enters() != back else -1
            if depth < 0:
                return back or self.timeline.one(False)
            if not back and not self.timeline.one(False):
                return False

    def frames(self) -> tuple[tuple[Frame, ...], bool]:
        """(the active calls, innermost first; whether the list is complete).

        The search passes at most `_SEARCHED` calls and returns. The timeline stays where it is.
        """
        out = [self.frame()]
        with self.timeline.excursion():
            depth = 0
            for _ in range(_SEARCHED if self.addresses else 0):
                if not self.timeline.nearest_at(self.addresses, back=True, near=_NEAR_CALL):
                    return tuple(out), True
                depth += -1 if self.enters() else 1
                if depth < 0:
                    out.append(self.frame())
                    depth = 0
            return tuple(out), self.timeline.position == 0 or not self.addresses

    def frame(self) -> Frame:
        """The innermost active call, as `frames` has it."""
        pc, labels = self.machine.pc, self.machine.program.labels
        before = [(address, name) for name, address in labels.items() if address <= pc]
        return Frame(pc, max(before)[1] if before else "", self.machine.program.source.span(pc), self.timeline.position)


# -----------------------------------------------------------------------------
# Causes: the last write of a place before the present step, and the chain of writes that gave it its value.
#
#     last_write(timeline, place)    the instruction that changed it last
#     why(timeline, place)           the same; an exchange is followed to the place from which it brought the word
#
# The timeline stays where it is, also where a search is interrupted.

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
