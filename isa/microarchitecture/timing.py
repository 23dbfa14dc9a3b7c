"""Cycles: how long an instruction takes on the co-processor, counted on the schedule that its hardware executes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from retrograd.isa.encoding import Instruction
from retrograd.isa.entries import REGISTER_FIELDS, Opcode
from retrograd.isa.microarchitecture.micro_operations import DEFAULT_UNITS, Units
from retrograd.isa.microarchitecture.microprograms import microprograms
from retrograd.isa.program import Program
from retrograd.isa.words import Format


@cache
def cycles(
    opcode: Opcode, w: Format, lifted: bool, same: bool, units: Units = DEFAULT_UNITS, addressing: str | None = None
) -> int:
    """Cycles of the opcode with D = `lifted`; `same`: its fields ra and rb name one register; `addressing`: see `Execution`.

    The inverse takes as many, with equal facts. Neither operands nor checks of overflow change the number. `units`: those of the core, see
    `CORES`.
    """
    return sum(stages(opcode, w, lifted, same, units, addressing).values())


@cache
def stages(
    opcode: Opcode, w: Format, lifted: bool, same: bool, units: Units = DEFAULT_UNITS, addressing: str | None = None
) -> dict[str, int]:
    """Stage -> cycles of the opcode, in the order of the stages; see `cycles`."""
    return microprograms(opcode.entry, w, lifted, same and lifted, units)[opcode.name].stages_before(addressing)


def addressing(code: Sequence[Instruction], at: int, following: int) -> str | None:
    """The fact `Execution.addressing` of the instruction at the address `at`, when that at `following` is next in the code.

    It does not depend on the direction in which the two are executed.
    """
    if not 0 <= following < len(code):
        return None
    i, after = code[at], code[following]
    if "m" not in after.opcode.reads and "m" not in after.opcode.writes:
        return None
    changed = (field for place, field in REGISTER_FIELDS.items() if place in i.opcode.writes)
    return next((field for field in changed if getattr(i, field) == after.ra), "")


class Execution(NamedTuple):
    """An executed instruction: the facts on which its cycles depend, and the direction."""

    opcode: Opcode
    #: with D = 1
    lifted: bool
    #: its fields ra and rb name one register
    same: bool
    #: +1 forward, −1 backward; backward, the opcode is the inverse of the one in the code
    direction: int
    #: Whether the instruction behind it in this direction addresses memory: None if not. If so, the field of this instruction that
    #: names a register that it writes, and that is the other's ra; "" if there is none.
    addressing: str | None = None

    @classmethod
    def at(cls, program: Program, pc: int, lifted: bool, direction: int) -> Execution:
        """The execution of the instruction at an address."""
        i = program.instructions[pc]
        opcode = i.opcode if direction > 0 else program.table.inverse(i.opcode)
        return cls(opcode, lifted, i.ra == i.rb, direction, addressing(program.instructions, pc, pc + direction))

    def cycles(self, w: Format, units: Units = DEFAULT_UNITS) -> int:
        """Cycles of the instruction."""
        return cycles(self.opcode, w, self.lifted, self.same, units, self.addressing)

    def stages(self, w: Format, units: Units = DEFAULT_UNITS) -> dict[str, int]:
        """Stage -> cycles of the instruction."""
        return stages(self.opcode, w, self.lifted, self.same, units, self.addressing)


def total_cycles(counts: Mapping[Execution, int], w: Format, units: Units = DEFAULT_UNITS) -> int:
    """Cycles of a run; `counts` has the number of times that each was executed."""
    return sum(n * execution.cycles(w, units) for execution, n in counts.items())
