"""A meter of the numbers of a run: the least and the greatest magnitude of each fixed-point variable, and of the terms of each line.

Of lognums it measures the greatest |log₂|.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retrograd.debugger.variables import elements
from retrograd.isa.encoding import Instruction
from retrograd.isa.program import Program, VariableLocation
from retrograd.simulator.machine import Machine

#: conversions whose result is no fixed-point word
_OTHER_RESULTS = ("ftoi", "ftol")
#: instruction -> its operands that are lognums
_LOGNUMS = {
    "ftol": "d", "lexp": "d", "ltof": "a", "llog": "a", "lmov": "da", "lpow": "da", "ladd": "dab", "lsub": "dab",
}  # fmt: skip


class Measured(NamedTuple):
    """A variable in a line, or with an empty name the terms that the line adds. `line` 0: the value at the beginning."""

    name: str
    file: str
    line: int


@dataclass
class Extent:
    """The least and the greatest magnitude of some words, in units of the format. Zeros are left out of the least."""

    least: int = 0
    greatest: int = 0

    def add(self, number: int) -> None:
        """Take a number in."""
        if number:
            self.least = min(self.least or abs(number), abs(number))
            self.greatest = max(self.greatest, abs(number))


class Meter:
    """Measures runs of one program. `values`, `cotangents`: the extents so far; `logarithms`: that of log₂|x| for lognums x."""

    def __init__(self, program: Program) -> None:
        self.values: dict[Measured, Extent] = {}
        self.cotangents: dict[Measured, Extent] = {}
        self.logarithms = Extent()
        self._program = program
        self._names = _Names(program)
        self._fixed = [_makes_fixed(i) for i in program.instructions]
        self._logs = [_LOGNUMS.get(i.opcode.entry.name, "") for i in program.instructions]

    def observer(self, machine: Machine) -> Callable[[Machine, int], None]:
        """The function that a run calls after each step, `Machine.run(observe=…)`. Arguments are measured at once."""
        signed, mask = machine.format.signed, machine.format.mask
        instructions, names = self._program.instructions, self._names
        # The words before a step: their difference is the term that an update adds.
        registers = [int(word) for word in machine._registers]
        memory: dict[int, int] = {}
        if machine.at_origin:
            self._note_arguments(machine)

        def observe(machine: Machine, pc: int) -> None:
            i, fixed = instructions[pc], self._fixed[pc]
            point = pc + 1 if machine.direction > 0 else pc
            cotangents = machine._cotangents
            for place in self._logs[pc]:
                register = i.rd if place == "d" else i.ra if place == "a" else i.rb
                self._note_lognum(int(machine._registers[register]), machine)
            for register in {i.rd, i.ra, i.rb}:
                word, before = int(machine._registers[register]), registers[register]
                registers[register] = word
                name = names.in_register(point, register)
                made = fixed and register == i.rd and word != before
                if made:
                    self._note(self.values, "", pc, signed((word - before) & mask))
                if made or name:
                    self._note(self.values, name, pc, signed(word))
                if cotangents is not None:
                    self._note(self.cotangents, name, pc, signed(int(cotangents.registers[register])))
            if "m" not in i.opcode.reads and "m" not in i.opcode.writes:
                return
            address = (int(machine._registers[i.ra]) + i.imm) & mask
            word, name = int(machine._memory[address]), names.in_memory(point, address)
            made = fixed and "m" in i.opcode.writes
            if made and address in memory:
                self._note(self.values, "", pc, signed((word - memory[address]) & mask))
            if made or name:
                self._note(self.values, name, pc, signed(word))
            memory[address] = word
            if cotangents is not None:
                self._note(self.cotangents, name, pc, signed(int(cotangents.memory[address])))

        return observe

    def _note_arguments(self, machine: Machine) -> None:
        """The words that the run begins with."""
        source = self._program.source
        file = source.files[0] if source.files else ""
        for location in self._program.variables:
            if location.layout is not None and not location.indirect and location.kind == "lognum":
                for word in elements(location, machine):
                    self._note_lognum(int(word.place.word(machine)), machine)
            if location.layout is not None and not location.indirect and location.kind == "fixed":
                extent = self.values.setdefault(Measured(location.name, file, 0), Extent())
                for word in elements(location, machine):
                    extent.add(machine.format.signed(int(word.place.word(machine))))

    def _note_lognum(self, word: int, machine: Machine) -> None:
        """Take in a lognum: its sign is the highest bit, its logarithm the bits below, in two's complement."""
        half = machine.format.sign >> 1
        self.logarithms.add(((word & (machine.format.sign - 1)) ^ half) - half)

    def _note(self, where: dict[Measured, Extent], name: str, pc: int, number: int) -> None:
        if number:
            span = self._program.source.span(pc)
            key = Measured(name, *(("", 0) if span is None else (span.file, span.line)))
            where.setdefault(key, Extent()).add(number)


def _makes_fixed(i: Instruction) -> bool:
    """Whether the result of an instruction is a fixed-point word."""
    group = i.opcode.group in ("fixed", "conversions")
    return group and i.opcode.entry.name not in _OTHER_RESULTS


class _Names:
    """The fixed-point variables at the points of a program."""

    def __init__(self, program: Program) -> None:
        self._scalars: dict[tuple[bool, int], list[VariableLocation]] = {}
        self._arrays: list[VariableLocation] = []
        for v in program.variables:
            if v.kind == "fixed" and v.layout is None:
                self._scalars.setdefault((v.memory, v.number), []).append(v)
            elif v.kind == "fixed" and not v.indirect:
                self._arrays.append(v)

    def in_register(self, point: int, register: int) -> str:
        """The variable in a register, or nothing."""
        return _living(self._scalars.get((False, register), ()), point)

    def in_memory(self, point: int, address: int) -> str:
        """The variable or array in a word of memory, or nothing."""
        found = _living(self._scalars.get((True, address), ()), point)
        return found or next((v.name for v in self._arrays if v.indices(address) is not None), "")


def _living(locations: Sequence[VariableLocation], point: int) -> str:
    """The variable that became live last, among the live ones at a point."""
    found = [v for v in locations if v.first <= point <= v.last]
    return max(found, key=lambda v: v.first).name.partition("[")[0] if found else ""
