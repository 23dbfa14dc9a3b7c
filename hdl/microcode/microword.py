"""The microword: what every part of the core does in one cycle, as fields.

A microword stands in a register while it acts, and so do its operands. A cycle before, it is at the memory's output, and
already says where the operands of the row after it come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from amaranth.hdl import Shape
from amaranth.lib import data
from retrograd.isa.microarchitecture.micro_operations import Unit

#: temporaries, the first words of the operand file; above them are the constants
TEMPORARIES = 32
#: bits of an address in the operand file
FILE_BITS = 7


class Select(Enum):
    """Where an operand comes from. From PROMPT on, the constants that the first cycle needs."""

    # the latches: words of places, and the constant of the instruction
    D = 0
    A = 1
    B = 2
    M = 3
    D_BAR = 4
    A_BAR = 5
    B_BAR = 6
    M_BAR = 7
    BR = 8
    IMM = 9
    NEGATED = 10
    # the operand file, at the address that the row before gave
    FILE = 11
    # a result on its way into the file: that of the cycle before the last, or of the last
    PREVIOUS = 12
    LAST = 13


#: how many latches there are
LATCHES = Select.FILE.value
#: the first selection that means a constant, and how many there are
PROMPT, PROMPTS = 16, 16


class Operation(Enum):
    """What is issued. Names are those of operations of trees, in capitals."""

    NONE = 0
    ADD = 1
    SUB = 2
    AND = 3
    OR = 4
    XOR = 5
    SHL = 6
    SHR = 7
    SAR = 8
    EQ = 9
    NE = 10
    LT = 11
    GE = 12
    LTU = 13
    GEU = 14
    ADDFITS = 15
    SUBFITS = 16
    SELECT = 17
    MULSHIFT = 18
    TABLE = 19
    DIVSHIFT = 20
    SQRTROUND = 21
    MULROUND = 22
    DIVROUND = 23


class Division(NamedTuple):
    """⌊x·2^s / y⌋, or with `root` ⌊√(x·2^s)⌋; with `rounded` to nearest, ties up: one of the operations of the divider."""

    root: bool
    s: int
    rounded: bool = False


class Writer(Enum):
    """Whose result is written."""

    LOGIC = 0
    MULTIPLIER = 1
    ROM = 2
    DIVIDER = 3


WRITERS = {
    Unit.LOGIC: Writer.LOGIC,
    Unit.MULTIPLIER: Writer.MULTIPLIER,
    Unit.ROM: Writer.ROM,
    Unit.DIVIDER: Writer.DIVIDER,
}


class Field(Enum):
    """The register that is written: which field of the instruction names it."""

    NONE = 0
    RD = 1
    RA = 2
    RB = 3


class Trap(Enum):
    """Why the machine stopped before an instruction: n stands for RG04n, but for ILLEGAL, RG0306."""

    NONE = 0
    MEMORY = 1
    DIVISION = 2
    DOMAIN = 3
    OVERFLOW = 4
    JUMP = 5
    COMEFROM = 6
    ANCILLA = 7
    STRICT = 8
    ERASED = 9
    CODE = 10
    LOGNUM = 11
    ILLEGAL = 12

    @property
    def code(self) -> str:
        """The code of its diagnostic."""
        return "RG0306" if self is Trap.ILLEGAL else f"RG04{self.value:02}"


TRAPS = {trap.code: trap for trap in Trap if trap is not Trap.NONE}

#: Where an operand of the *next* row comes from, and its address in the operand file.
SOURCE = data.StructLayout({"select": 5, "ahead": FILE_BITS})

#: A predicate among the results: if zero, the trap, unless a guard before it fails too.
CHECK = data.StructLayout({"valid": 1, "order": 4, "trap": Trap, "overflow": 1})

#: What changes in the machine.
COMMIT = data.StructLayout(
    {
        # the register to write, from x; its cotangent, from y
        "field": Field,
        "word": 1,
        "cotangent": 1,
        # the memory word, from z; its cotangent, from z, or if both change from the latch of d's
        "memory": 1,
        "memory_cotangent": 1,
        # BR, from z
        "branch": 1,
        # an ancilla is free here, and its cotangent dropped
        "drop": 1,
        # the first write: the one that a trap prevents, and PC changes
        "first": 1,
        "last": 1,
    }
)

MICROWORD = data.StructLayout(
    {
        "x": SOURCE,
        "y": SOURCE,
        "z": SOURCE,
        "operation": Operation,
        # which table, which division, or where a product is rounded
        "parameter": 5,
        "write": 1,
        "writer": Writer,
        "temporary": 5,
        # which word of a product or quotient
        "shift": 5,
        "check": CHECK,
        "commit": COMMIT,
    }
)


def pack(layout: data.StructLayout, values: Mapping[str, Any]) -> int:
    """The bits of a record. Fields not given are zero. Raises ValueError for a value too large."""
    bits, places = 0, _places(layout)
    for name, value in values.items():
        shape, offset, width = places[name]
        if isinstance(value, Mapping):
            word = pack(shape, value)
        else:
            word = value.value if isinstance(value, Enum) else int(value)
        if word >> width:
            raise ValueError(f"{name} = {word} does not fit")
        bits |= word << offset
    return bits


def _places(layout: data.StructLayout) -> dict[str, tuple[Any, int, int]]:
    """Fields by name: shape, where it begins, bits. A core packs some hundred thousand, and a layout computes these each time."""
    found = _PLACES.get(id(layout))
    if found is None:
        places = {str(name): (one.shape, one.offset, Shape.cast(one.shape).width) for name, one in layout}
        _PLACES[id(layout)] = found = layout, places
    return found[1]


#: layouts, which cannot be hashed, by their identity: kept, so that no other has it
_PLACES: dict[int, tuple[data.StructLayout, dict[str, tuple[Any, int, int]]]] = {}
