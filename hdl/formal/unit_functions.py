"""Multiplier, divider and ROM as arbitrary functions of their operands, on both sides of a proof.

    product<half>(x, y),  quotient<division>(x, y),  a word of 4W bits, of which a shift selects W;  table(address)

A proof with them holds for every such function: equal operands give equal results. That the units compute these functions is a claim on the
units alone (`unit_proofs.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from amaranth.hdl import Signal
from retrograd.hdl.core.core import Lane
from retrograd.hdl.core.sequencer import Phase
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Word
from retrograd.hdl.microword import Division
from retrograd.isa.expr import half
from retrograd.isa.words import Format

#: operands of a multiplier, by stage; and of a divider
Products = list[tuple[Word, Word, Word] | None]
Quotients = tuple[int, Word, Word] | None


class UnitFunctions:
    """The results of the units of one core, slot by slot. `hardware` is set once the core's netlist exists."""

    hardware: Symbolic

    def __init__(self, core: Lane, w: Format) -> None:
        self._core, self._w = core, w
        self._idle = 0
        self.begin()

    def begin(self) -> None:
        """No operation is in flight."""
        self._products: dict[int, Products] = {k: [None] * (m.cycles - 1) for k, m in self._core.multipliers.items()}
        self._divisions: dict[int, Quotients] = dict.fromkeys(self._core.dividers)

    @property
    def given(self) -> list[tuple[Signal, Callable[[], Word]]]:
        """The outputs of all multipliers and dividers, each with the function that stands for it."""
        core = self._core
        units: list[tuple[Any, Callable[..., Word]]] = [
            (unit, partial(self._product, k)) for k, unit in core.multipliers.items()
        ]
        units += [(unit, partial(self._quotient, k)) for k, unit in core.dividers.items()]
        found = [(unit.result, word) for unit, word in units]
        return found + [(unit.fits, partial(word, True)) for unit, word in units if unit.flags]

    def advance(self) -> None:
        """Advance the hardware by one cycle, and move the operands of multipliers and dividers to their next stage."""
        hw, core = self.hardware, self._core
        # Before execution the control signals of units are undefined, and their effects end before the units are started.
        runs = hw.peek(core.phase) == Phase.RUN.value
        products, divisions = {}, {}
        for k, multiplier in core.multipliers.items():
            asked = None
            if runs and hw.peek(multiplier.start):
                asked = hw.peek(multiplier.half), hw.peek(multiplier.x), hw.peek(multiplier.y)
            *moving, held = self._products[k]
            *moving, arriving = [asked, *moving]
            products[k] = [*moving, arriving or held]
        for k, divider in core.dividers.items():
            divisions[k] = self._divisions[k]
            if runs and hw.peek(divider.start):
                divisions[k] = hw.peek(divider.division), hw.peek(divider.x), hw.peek(divider.y)
        hw.tick()
        self._products, self._divisions = products, divisions

    def _product(self, slot: int, fits: bool = False) -> Word:
        """The output of a multiplier."""
        unit, asked = self._core.multipliers[slot], self._products[slot][-1]
        shift = self.hardware.peek(unit.shift)
        if asked is None or not isinstance(shift, int):
            return self._any(fits)
        half, *operands = asked
        return self._output(f"product{half}", unit.shifts, shift, operands, fits)

    def _quotient(self, slot: int, fits: bool = False) -> Word:
        """The output of a divider."""
        unit, asked = self._core.dividers[slot], self._divisions[slot]
        shift = self.hardware.peek(unit.shift)
        if asked is None or not isinstance(shift, int):
            return self._any(fits)
        which, x, y = asked
        return self._output(f"quotient{which}", unit.shifts, shift, [x] if unit.plans[which].root else [x, y], fits)

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

    def _output(self, name: str, shifts: Sequence[int], index: int, operands: Sequence[Word], fits: bool) -> Word:
        word = self._function(name, shifts, index, operands)
        if not fits:
            return word
        width = self._w.width
        above = self._function(name, [shift + width for shift in shifts], index, operands)
        sign = terms.piece_of(word, width - 1, 1)
        return terms.equal(above, terms.joined([(sign, 1)] * width), width)

    def _function(self, name: str, shifts: Sequence[int], index: int, operands: Sequence[Word]) -> Word:
        width = self._w.width
        # Without a pending result the shift is undefined.
        shift = shifts[index] if index < len(shifts) else 0
        return terms.part(terms.function(name, 4 * width, [terms.term(x, width) for x in operands]), shift, width)

    def _any(self, fits: bool) -> Word:
        """An arbitrary word for the output of an idle unit, or an arbitrary flag."""
        self._idle += 1
        return terms.unknown(f"left{self._idle}", 1 if fits else self._w.width)
