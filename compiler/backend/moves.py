"""Moves between locations: sequences of instructions that exchange, copy and fill registers and words of memory.

Each sequence can be undone by its inverse, and leaves the scratch registers zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from retrograd.compiler.backend.linear_code import immediate_of
from retrograd.compiler.backend.register_allocation import SLOT, ZERO_REGISTER, RegisterRoles
from retrograd.compiler.ir.statements import Module
from retrograd.isa.encoding import Instruction, inverse
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

_MOV, _IMM, _LD, _ST = TABLE["mov.add"], TABLE["imm.add"], TABLE["ld.add"], TABLE["st.add"]
_SWAP, _ASSERT = TABLE["swap"], TABLE["assertz"]
EXCHANGE = TABLE["exch"]


def undo(instructions: Sequence[Instruction]) -> list[Instruction]:
    """(i₁ i₂ … iₙ)⁻¹, for instructions that do not jump."""
    return [inverse(i) for i in reversed(instructions)]


def make_constant(register: int, word: int, w: Format, update: str = "add") -> list[Instruction]:
    """register ⊕= word, in two instructions where 32 bits do not hold it and its lower half is not zero.

    The lower half is sign-extended, and the upper half makes up for it: word = low + high·2^32, or with ⊕ for +.
    """
    value = immediate_of(word, w)
    if value is not None:
        return [Instruction(TABLE[f"imm.{update}"], register, imm=value)]
    low = _signed32(word)
    rest = word ^ low if update == "xor" else word - low
    upper = Instruction(TABLE[f"immhi.{update}"], register, imm=_signed32(rest >> 32))
    return [Instruction(TABLE[f"imm.{update}"], register, imm=low), upper] if low else [upper]


def _signed32(value: int) -> int:
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


class Moves:
    """The moves of one program, with its scratch registers and registers of constants."""

    def __init__(self, module: Module, roles: RegisterRoles) -> None:
        self.w = module.format
        self._memory = module.memory
        self.roles = roles

    def slot(self, location: int) -> int:
        """The immediate of an instruction that accesses the memory word of a location, based on the zero register."""
        return self.w.signed(self._memory + location - SLOT)

    @property
    def stack(self) -> int:
        """The register of the stack pointer."""
        assert self.roles.stack is not None
        return self.roles.stack

    def push(self, register: int) -> list[Instruction]:
        return [Instruction(EXCHANGE, register, self.stack), Instruction(_IMM, self.stack, imm=1)]

    def save(self, locations: Sequence[int]) -> list[Instruction]:
        """The locations exchanged with the free words of the stack, which then end behind them."""
        scratch, out = self.roles.scratch[0], list[Instruction]()
        for depth, location in enumerate(locations):
            if location < SLOT:
                out.append(Instruction(EXCHANGE, location, self.stack, imm=depth))
            else:
                out += [self.exchange_slot(scratch, location), Instruction(EXCHANGE, scratch, self.stack, imm=depth)]
        return [*out, Instruction(_IMM, self.stack, imm=len(locations))] if locations else out

    def exchange_slot(self, register: int, location: int) -> Instruction:
        """Exchange a register with a location in memory."""
        return Instruction(EXCHANGE, register, ZERO_REGISTER, imm=self.slot(location))

    def exchange(self, x: int, y: int) -> list[Instruction]:
        """Exchange two locations."""
        if x >= SLOT:
            x, y = y, x
        if x >= SLOT:
            scratch = self.roles.scratch[0]
            first = self.exchange_slot(scratch, x)
            return [first, self.exchange_slot(scratch, y), first]
        return [self.exchange_slot(x, y) if y >= SLOT else Instruction(_SWAP, x, y)]

    def test_zero(self, location: int) -> list[Instruction]:
        """Trap unless the location holds zero."""
        if location < SLOT:
            return [Instruction(_ASSERT, location)]
        exchange = self.exchange_slot(self.roles.scratch[0], location)
        return [exchange, Instruction(_ASSERT, self.roles.scratch[0]), exchange]

    def copy(self, source: int, target: int) -> list[Instruction]:
        """target += source."""
        if target >= SLOT and source >= SLOT:
            scratch = self.roles.scratch[0]
            load = Instruction(_LD, scratch, ZERO_REGISTER, imm=self.slot(source))
            return [load, self.exchange_slot(scratch, target)]
        if target >= SLOT:
            return [Instruction(_ST, 0, ZERO_REGISTER, source, self.slot(target))]
        if source >= SLOT:
            return [Instruction(_LD, target, ZERO_REGISTER, imm=self.slot(source))]
        return [Instruction(_MOV, target, source)]

    def fill(self, target: int, word: int) -> list[Instruction]:
        """target += word, from zero."""
        register = self.roles.constants.get(word)
        if register is not None and (target >= SLOT or immediate_of(word, self.w) is None):
            return self.copy(register, target)
        if target < SLOT:
            return make_constant(target, word, self.w)
        scratch = self.roles.scratch[0]
        return [*make_constant(scratch, word, self.w), self.exchange_slot(scratch, target)]
