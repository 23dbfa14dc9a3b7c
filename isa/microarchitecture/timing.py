"""Cycles: how long an instruction takes on the co-processor, counted on the schedule that its hardware executes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from retrograd.isa.entries import Opcode
from retrograd.isa.microarchitecture.micro_operations import DEFAULT_UNITS, Units
from retrograd.isa.microarchitecture.microprograms import microprograms
from retrograd.isa.words import Format


@cache
def cycles(opcode: Opcode, w: Format, lifted: bool, same: bool, units: Units = DEFAULT_UNITS) -> int:
    """Cycles of the opcode with D = `lifted`; `same`: its fields ra and rb name one register.

    The inverse takes as many. Neither operands nor checks of overflow change the number. `units`: those of the core, see `CORES`.
    """
    return sum(stages(opcode, w, lifted, same, units).values())


@cache
def stages(opcode: Opcode, w: Format, lifted: bool, same: bool, units: Units = DEFAULT_UNITS) -> dict[str, int]:
    """Stage -> cycles of the opcode, in the order of the stages; see `cycles`."""
    return microprograms(opcode.entry, w, lifted, same and lifted, units)[opcode.name].stages


class Execution(NamedTuple):
    """An executed instruction: the facts on which its cycles depend, and the direction."""

    opcode: Opcode
    #: with D = 1
    lifted: bool
    #: its fields ra and rb name one register
    same: bool
    #: +1 forward, −1 backward; backward, the opcode is the inverse of the one in the code
    direction: int

    def cycles(self, w: Format, units: Units = DEFAULT_UNITS) -> int:
        """Cycles of the instruction."""
        return cycles(self.opcode, w, self.lifted, self.same, units)

    def stages(self, w: Format, units: Units = DEFAULT_UNITS) -> dict[str, int]:
        """Stage -> cycles of the instruction."""
        return stages(self.opcode, w, self.lifted, self.same, units)


def total_cycles(counts: Mapping[Execution, int], w: Format, units: Units = DEFAULT_UNITS) -> int:
    """Cycles of a run; `counts` has the number of times that each was executed."""
    return sum(n * execution.cycles(w, units) for execution, n in counts.items())
