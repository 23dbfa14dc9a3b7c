"""Mnemonics of PISA: the instruction of the table that each stands for, one to one, at words of 32 bits.

(M. P. Frank, Reversibility for Efficient Computing, PhD thesis, MIT 1999, appendix B.) PISA's registers $0 to $31 are r0 to r31.
A branch on the sign of a register compares with r255, which no PISA program names, so it stays zero. Instructions of PISA whose
meaning depends on a second branch are in `branches.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from retrograd.isa.words import Format

#: the words of PISA
FORMAT = Format(32, 0)
REGISTERS = 32
#: a register that is zero, since no instruction of PISA names it
ZERO_REGISTER = 255


class Plain(NamedTuple):
    """An instruction that is one instruction of the table: its name, and the fields that its operands fill, in order."""

    name: str
    fields: tuple[str, ...]


class Conditional(NamedTuple):
    """A conditional branch: the condition of the table, and the fields of its registers; the field without a register is zero."""

    condition: str
    fields: tuple[str, ...]


_TWO = ("rd", "ra")
_THREE = ("rd", "ra", "rb")
_CONSTANT = ("rd", "imm")
_SHIFT = ("rd", "ra", "amount")

PLAIN = {
    "ADD": Plain("mov.add", _TWO),
    "SUB": Plain("mov.sub", _TWO),
    "XOR": Plain("mov.xor", _TWO),
    "ADDI": Plain("imm.add", _CONSTANT),
    "XORI": Plain("imm.xor", _CONSTANT),
    "NEG": Plain("neg", ("rd",)),
    "EXCH": Plain("exch", _TWO),
    "SWAPBR": Plain("swapbr", ("rd",)),
    "ANDX": Plain("and.xor", _THREE),
    "ANDIX": Plain("andi.xor", ("rd", "ra", "imm")),
    "ORX": Plain("or.xor", _THREE),
    "ORIX": Plain("ori.xor", ("rd", "ra", "imm")),
    "NORX": Plain("nor.xor", _THREE),
    "SLTX": Plain("slt.xor", _THREE),
    "SLTIX": Plain("slti.xor", ("rd", "ra", "imm")),
    "SLLX": Plain("shli.xor", _SHIFT),
    "SRLX": Plain("shri.xor", _SHIFT),
    "SRAX": Plain("sari.xor", _SHIFT),
    "SLLVX": Plain("shl.xor", _THREE),
    "SRLVX": Plain("shr.xor", _THREE),
    "SRAVX": Plain("sar.xor", _THREE),
    "RL": Plain("roli", ("rd", "amount")),
    "RR": Plain("rori", ("rd", "amount")),
    "RLV": Plain("rol", _TWO),
    "RRV": Plain("ror", _TWO),
    "EMIT": Plain("erase", ("rd",)),
    # A mark for the host, which changes nothing: rd −= 0. PISA has no difference with a constant.
    "OUTPUT": Plain("imm.sub", ("rd",)),
    "START": Plain("start", ()),
    "FINISH": Plain("finish", ()),
}

CONDITIONAL = {
    "BEQ": Conditional(".eq", ("ra", "rb")),
    "BNE": Conditional(".ne", ("ra", "rb")),
    "BGEZ": Conditional(".ge", ("ra",)),
    "BLTZ": Conditional(".lt", ("ra",)),
    "BGTZ": Conditional(".lt", ("rb",)),
    "BLEZ": Conditional(".ge", ("rb",)),
}

#: other names of the same instructions
SYNONYMS = {"XORX": "XOR", "XORIX": "XORI", "OUT": "OUTPUT", "SHOW": "OUTPUT"}

UNCONDITIONAL = ("BRA", "RBRA")
MNEMONICS = (*PLAIN, *CONDITIONAL, *UNCONDITIONAL, "DATA")

#: instructions of other machines called Pendulum, and the reason why each is refused
REFUSED = {
    "READ": "a program has no input: load registers and memory by --set and --mem",
    **dict.fromkeys(
        ("BEZ", "RBEZ", "RBLTZ"),
        "it exchanges PC with a register, on the 12-bit Pendulum chip; PISA here is the 32-bit machine with a branch register",
    ),
}


def syntax(mnemonic: str) -> str:
    """An instruction and its operands, as a message shows them."""
    if mnemonic in UNCONDITIONAL:
        return f"{mnemonic} label"
    if mnemonic == "DATA":
        return "DATA constant"
    shown = {"rd": "$d", "ra": "$a", "rb": "$b", "imm": "constant", "amount": "amount"}
    found = PLAIN.get(mnemonic) or CONDITIONAL[mnemonic]
    label = ["label"] if mnemonic in CONDITIONAL else []
    return " ".join([mnemonic, *(shown[field] for field in found.fields), *label])
