"""Multiplier, divider and ROM as arbitrary functions of their operands, on both sides of a proof.

    product<half>(x, y),  quotient<division>(x, y),  a word of 3W bits, of which a shift selects W;  table(address)

A proof with them holds for every such function: equal operands give equal results. That the units compute these functions is a claim on the
units alone (`unit_proofs.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.hdl.core.core import Core
from retrograd.hdl.core.sequencer import Phase
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Word
from retrograd.hdl.microword import Division
from retrograd.isa.expr import half
from retrograd.isa.words import Format

#: operands of the multiplier, by stage, and of the divider
Operands = tuple[list[tuple[Word, Word, Word] | None], tuple[int, Word, Word] | None]


class UnitFunctions:
    """The results of the units of one core. `hardware` is set once the core's netlist exists."""

    hardware: Symbolic

    def __init__(self, core: Core, w: Format) -> None:
        self._core, self._w = core, w
        self._idle = 0
        self.begin()

    def begin(self) -> None:
        """No operation is in flight."""
        self._products, self._division = self._begun()

    @staticmethod
    def _begun() -> Operands:
        return [None, None], None

    def advance(self) -> None:
        """Advance the hardware by one cycle, and move the operands of multiplier and divider to their next stage."""
        moved = self.moved()
        self.hardware.tick()
        self._products, self._division = moved

    def moved(self) -> Operands:
        """The operands by stage after this cycle."""
        hw, core = self.hardware, self._core
        multiplier, divider = core.multiplier, core.divider
        # Before execution the control signals of units are undefined, and their effects end before the units are started.
        runs = hw.peek(core.phase) == Phase.RUN.value
        asked = None
        if runs and hw.peek(multiplier.start):
            asked = hw.peek(multiplier.half), hw.peek(multiplier.x), hw.peek(multiplier.y)
        division = self._division
        if runs and hw.peek(divider.start):
            division = hw.peek(divider.division), hw.peek(divider.x), hw.peek(divider.y)
        return [asked, self._products[0] or self._products[1]], division

    def product(self) -> Word:
        """The output of the multiplier."""
        shift = self.hardware.peek(self._core.multiplier.shift)
        if self._products[1] is None or not isinstance(shift, int):
            return self._any()
        half, *operands = self._products[1]
        return self._function(f"product{half}", self._core.multiplier.shifts, shift, operands)

    def quotient(self) -> Word:
        """The output of the divider."""
        unit = self._core.divider
        shift = self.hardware.peek(unit.shift)
        if self._division is None or not isinstance(shift, int):
            return self._any()
        which, x, y = self._division
        return self._function(f"quotient{which}", unit.shifts, shift, [x] if unit.plans[which].root else [x, y])

    def of_table(self, operation: str, parameter: Any, v: list[Word]) -> Word:
        """A result of multiplier, divider or ROM as the same function of the operands that stands for the hardware's."""
        core, code, width = self._core, self._core.microcode, self._w.width
        match operation:
            case "mulshift":
                return self._function("product0", [parameter], 0, v)
            case "mulround":
                return self._function(f"product{code.halves.index(half(parameter, self._w))}", [parameter], 0, v)
            case "table":
                index = code.tables.index(parameter)
                bits, size = (len(parameter) - 1).bit_length(), (core.rom.entries.depth - 1).bit_length()
                pieces = [(terms.piece_of(v[0], 0, bits), bits), (core.rom.bases[index] >> bits, size - bits)]
                return self.hardware.entry("rom.entries", terms.joined([piece for piece in pieces if piece[1]]))
            case "sqrtround":
                which, shift = Division(True, parameter, True), 0
            case "divround":
                which, shift = Division(False, parameter % width, True), parameter % width - parameter
            case _:
                which, shift = Division(False, max(0, parameter)), max(0, parameter) - parameter
        return self._function(f"quotient{code.divisions.index(which)}", [shift], 0, v)

    def _function(self, name: str, shifts: Sequence[int], index: int, operands: Sequence[Word]) -> Word:
        width = self._w.width
        # Without a pending result the shift is undefined.
        shift = shifts[index] if index < len(shifts) else 0
        return terms.part(terms.function(name, 3 * width, [terms.term(x, width) for x in operands]), shift, width)

    def _any(self) -> Word:
        """An arbitrary word for the output of an idle unit."""
        self._idle += 1
        return terms.unknown(f"left{self._idle}", self._w.width)
