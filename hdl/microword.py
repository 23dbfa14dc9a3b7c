"""The microword: the control fields of all parts of the core for one cycle.

A microword and its operands stand in registers while it executes. One cycle earlier it is at the output of the microcode memory
and selects the operands of the row after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from amaranth.hdl import Shape
from amaranth.lib import data
from retrograd.isa.microarchitecture.micro_operations import Unit
from retrograd.isa.microarchitecture.rows import BANK_TEMPORARIES

#: bits of an address in the operand file: the temporaries, then the constants
FILE_BITS = 7


class Select(Enum):
    """Sources of an operand. From PROMPT on: the constants that the first cycle needs."""

    # the latches: words of operands, cotangents, and the constant of the instruction
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
    # the operand file, at the address in the row before
    FILE = 11
    # a result that is not yet in the file: of the cycle before the last, or of the last
    PREVIOUS = 12
    LAST = 13
    # in an overlapped core: of the cycle before these two
    EARLIER = 14


#: number of latches
LATCHES = Select.FILE.value
#: the first selection of a constant, and the number of constants
PROMPT, PROMPTS = 16, 16


class Operation(Enum):
    """Operations of the units, named as the operations of trees."""

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
    """An operation of the divider: ⌊x·2^s / y⌋, or with `root` ⌊√(x·2^s)⌋; with `rounded` to nearest, ties up."""

    root: bool
    s: int
    rounded: bool = False

    @property
    def operation(self) -> str:
        """The operation of trees."""
        return "sqrtround" if self.root else "divround" if self.rounded else "divshift"


class Writer(Enum):
    """The unit whose result is written."""

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
    """The field of the instruction that names the register to write."""

    NONE = 0
    RD = 1
    RA = 2
    RB = 3


class TrapCause(Enum):
    """The cause of a trap. Number n is the diagnostic RG04n, except ILLEGAL, which is RG0306."""

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
    ASSERTION = 13

    @property
    def code(self) -> str:
        """The code of the diagnostic."""
        return "RG0306" if self is TrapCause.ILLEGAL else f"RG04{self.value:02}"


TRAPS = {trap.code: trap for trap in TrapCause if trap is not TrapCause.NONE}

#: Source of an operand of the *next* row, and its address in the operand file.
SOURCE = data.StructLayout({"select": 5, "ahead": FILE_BITS})

#: The result is the predicate of a guard: if it is zero, this trap, unless an earlier guard fails as well.
CHECK = data.StructLayout({"valid": 1, "order": 4, "trap": TrapCause, "overflow": 1})

#: Changes of the machine's state.
COMMIT = data.StructLayout(
    {
        # the register to write, from x; its cotangent, from y
        "field": Field,
        "word": 1,
        "cotangent": 1,
        # the memory word, from z; its cotangent, from z, or, if both change, from the latch of d's cotangent
        "memory": 1,
        "memory_cotangent": 1,
        # BR, from z
        "branch": 1,
        # an ancilla is freed here, and its cotangent discarded
        "drop": 1,
        # the first write: a trap prevents it, and PC changes with it
        "first": 1,
        "last": 1,
    }
)

#: Control of one slot: a micro-operation, and the write of a result.
SLOT: dict[str, Any] = {
    "x": SOURCE,
    "y": SOURCE,
    "z": SOURCE,
    "operation": Operation,
    # index of the table, of the division, or of the rounding constant
    "parameter": 5,
    "write": 1,
    "writer": Writer,
    "temporary": 5,
    # index of the shift of a product or quotient
    "shift": 5,
}

#: Changes of state of an overlapped core, which writes a cotangent to a register of its own: the field that names it.
WIDE_COMMIT = data.StructLayout({**{str(name): COMMIT[name].shape for name, _ in COMMIT}, "shadow": Field})

#: For the row before the last write: a mark of this row, the fields that name the registers of the last write, and
#: whether that write stores.
ENDING = data.StructLayout({"last": 1, "field": Field, "shadow": Field, "stores": 1})

MICROWORD = data.StructLayout({**SLOT, "check": CHECK, "commit": COMMIT})

#: the first selection of a constant in an overlapped core, and the number of constants
WIDE_PROMPT, WIDE_PROMPTS = 32, 32


#: The check of a slot of an overlapped core. Predicates of the guard: the result, whether the sum fits, and whether
#: the product or quotient does.
WIDE_CHECK = data.StructLayout({"result": 1, "sum": 1, "unit": 1, "order": 4, "trap": TrapCause, "overflow": 1})

#: Control of a slot of an overlapped core. `chain`: the sum of z and the product of the slot is written, or
#: with `difference` z less the product.
WIDE_SLOT: dict[str, Any] = {**SLOT, "chain": 1, "difference": 1, "check": WIDE_CHECK}


def wide_microword(slots: int) -> data.StructLayout:
    """The microword of an overlapped core. The fields of the first slot stand as in MICROWORD, the others in `slot1`, …"""
    others = {f"slot{k}": data.StructLayout(WIDE_SLOT) for k in range(1, slots)}
    return data.StructLayout({**WIDE_SLOT, "commit": WIDE_COMMIT, "ending": ENDING, **others})


def wide_select(select: Select, slot: int, slots: int) -> int:
    """The number of a selection where each slot has a file and results; for a single slot, the number in `Select`."""
    return LATCHES + (select.value - LATCHES) * slots + slot


# -----------------------------------------------------------------------------
# Rows of a core whose threads take turns: each reads three words, and writes one.


class Read(Enum):
    """Where an operand stands: in the file, with the number of the row or of a field of the instruction; or beside the files."""

    #: temporaries and constants
    FILE = 0
    D = 1
    A = 2
    B = 3
    #: a line of `Beside`
    BESIDE = 4
    D_BAR = 5
    A_BAR = 6
    B_BAR = 7


class Beside(Enum):
    """Operands that do not stand in the file: the places of their lines in the number of the row."""

    M = 0
    M_BAR = 1
    BR = 2
    IMM = 3
    NEGATED = 4


#: number of the first constant in a thread's file; the temporaries stand below
THREAD_CONSTANTS = 128

OPERAND = data.StructLayout({"kind": Read, "number": 8})

#: number of the first temporary in the second of two banks
SECOND_BANK = BANK_TEMPORARIES

#: The predicates of a guard: as in `WIDE_CHECK`; `zero`: bit 0 of the result must be 0; `chain`: the sum with the
#: product fits.
ROW_CHECK = data.StructLayout(
    {"result": 1, "zero": 1, "sum": 1, "unit": 1, "chain": 1, "order": 4, "trap": TrapCause, "overflow": 1}
)

TURN = data.StructLayout(
    {
        "x": OPERAND,
        "y": OPERAND,
        "z": OPERAND,
        "operation": Operation,
        "parameter": 5,
        # a quotient or root begins
        "divides": 1,
        "shift": 5,
        "writer": Writer,
        # z + product is written, or with `difference` z − product
        "chain": 1,
        "difference": 1,
        # the word that is written: of the file, of memory, of memory's cotangents, BR
        "target": OPERAND,
        "write": 1,
        "memory": 1,
        "memory_cotangent": 1,
        "branch": 1,
        "check": ROW_CHECK,
        # for the first row: a memory word is addressed
        "addresses": 1,
        # a trap prevents the writes of this row and of later rows; and the changes of state that come with it
        "decides": 1,
        "drops": 1,
        "lands": 1,
        "turns": 1,
        "erases": 1,
        "last": 1,
        # for the first row of an instruction: BR must be 0; the program ends here; a trap that is known before
        "settled": 1,
        "halts": 1,
        "forbidden": data.StructLayout({"valid": 1, "order": 4, "trap": TrapCause, "overflow": 1, "strict": 1}),
    }
)

#: The second slot of a turn: x and y, or with `copies` y alone, which is then written; x is the old word of the target.
SECOND = data.StructLayout(
    {
        "x": OPERAND,
        "y": OPERAND,
        "operation": Operation,
        "copies": 1,
        "target": OPERAND,
        "write": 1,
        "check": data.StructLayout({"result": 1, "zero": 1, "sum": 1, "order": 4, "trap": TrapCause, "overflow": 1}),
        # the guard of this slot comes before that of the first one
        "before": 1,
    }
)


def turn_layout(slots: int) -> data.StructLayout:
    """A row with this number of slots, 1 or 2."""
    return data.StructLayout({**{str(n): TURN[n].shape for n, _ in TURN}, "second": SECOND}) if slots > 1 else TURN


def pack(layout: data.StructLayout, values: Mapping[str, Any]) -> int:
    """The bits of a record. Missing fields are zero. Raises ValueError for a value that does not fit its field."""
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
    """Fields by name: shape, offset, width. Cached, since a layout computes them anew on each access and a core packs 10^5 records."""
    found = _PLACES.get(id(layout))
    if found is None:
        places = {str(name): (one.shape, one.offset, Shape.cast(one.shape).width) for name, one in layout}
        _PLACES[id(layout)] = found = layout, places
    return found[1]


#: id of a layout (layouts are not hashable) -> the layout, kept so that its id is not reused, and its fields
_PLACES: dict[int, tuple[data.StructLayout, dict[str, tuple[Any, int, int]]]] = {}
