"""Recordings: every step of a bounded run with its changes, for pictures and traces.

    state n + 1 = state n with the changes of step n;   state n = state n + 1 with them undone

A recording has the state at its beginning and the words that each step changed. The reference machine runs, so a recording costs
about a microsecond and a few hundred bytes for a step; it is bounded by its number of steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from retrograd.debugger.places import written_registers
from retrograd.isa.encoding import Instruction, inverse, write
from retrograd.isa.microarchitecture.schedule import Execution
from retrograd.isa.program import Program
from retrograd.simulator.machine import Machine, Stop, Trap
from retrograd.simulator.stores import Store

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
