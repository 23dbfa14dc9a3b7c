"""The entries of the dispatch memory: the facts on an instruction that are needed before execution, and its first microword.

The address of an entry is made of the opcode, DIR, D, and whether ra and rb are one register.
"""

from __future__ import annotations

from amaranth.lib import data
from retrograd.hdl.microword import MICROWORD, WIDE_PROMPT, WIDE_PROMPTS, TrapCause, wide_microword

#: bits of an address in the microcode memory
ADDRESS_BITS = 14

#: A trap that is known before execution: of an instruction that always traps, or that always traps on a strict machine.
FORBIDDEN = data.StructLayout({"valid": 1, "order": 4, "trap": TrapCause, "overflow": 1, "strict": 1})

#: The facts that are needed before execution, and the first row.
HEAD = data.StructLayout(
    {
        # the opcode exists, and the machine has the units for it
        "legal": 1,
        "halts": 1,
        "turns": 1,
        # the instruction addresses a memory word
        "memory": 1,
        # BR must be 0
        "settled": 1,
        # the inverse has the opposite constant; and the inverse is executed here
        "negatable": 1,
        "negates": 1,
        # the instruction erases a word
        "erases": 1,
        # the fields of the encoding that the opcode uses: rd, ra, rb, imm
        "used": 4,
        # pairs of registers that must differ: rd and ra, rd and rb, ra and rb
        "distinct": 3,
        "forbidden": FORBIDDEN,
        # selections of the operands of the first row
        "x": 5,
        "y": 5,
        "z": 5,
        "word": MICROWORD,
    }
)


#: Lines of the selections of an operand in the first row of an overlapped core: latches, and from WIDE_PROMPT on constants.
FIRST = WIDE_PROMPT + WIDE_PROMPTS


def wide_head(slots: int) -> data.StructLayout:
    """The head of an overlapped core: the selections of all slots, and the facts that the front end needs."""
    fields = {str(name): HEAD[name].shape for name, _ in HEAD if name not in ("x", "y", "z", "word")}
    # only after it is the next instruction known; BR is 0 behind it; BR is the constant, or a slot chooses that in the last cycle
    # of execution; cycles besides execution and writes
    fields |= {"redirects": 1, "lands": 1, "leaps": 1, "chooses": 1, "waiting": 3}
    fields |= {first_selection(port, k): FIRST for k in range(slots) for port in "xyz"}
    return data.StructLayout({**fields, "word": wide_microword(slots)})


def entry_of(head: data.StructLayout) -> data.StructLayout:
    """An entry: the head, then the address of the second row."""
    return data.StructLayout({**{str(name): field.shape for name, field in head}, "start": ADDRESS_BITS})


DISPATCH = entry_of(HEAD)


def first_selection(port: str, slot: int) -> str:
    """The field of the selection of a slot's operand in the first row."""
    return f"{port}{slot or ''}"


#: bits of the address of an entry
DISPATCH_BITS = 11


def dispatch_address(code: int, backward: bool, lifted: bool, same: bool) -> int:
    """Address of an opcode's entry in the dispatch memory: 8 bits of opcode, then DIR, D, and ra = rb."""
    return code | backward << 8 | lifted << 9 | same << 10
