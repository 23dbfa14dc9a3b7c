"""Mnemonics of PISA: the instruction of the table that each stands for, one to one, at words of 32 bits.

(M. P. Frank, Reversibility for Efficient Computing, PhD thesis, MIT 1999, appendix B.) PISA's registers $0 to $31 are r0 to r31.
A branch on the sign of a register compares with r255, which no PISA program names, so it stays zero. Instructions of PISA whose
meaning depends on a second branch are in `branches.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from retrograd.isa.encoding import Instruction
from retrograd.isa.entries import Function
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


# -----------------------------------------------------------------------------
# Expansions: an instruction of the table as PISA instructions, for the writer.
#
# An instruction with no counterpart is computed into temporaries, which are cleared again by the inverse of their computation:
#
#     compute;  rd ± temporary;  compute⁻¹
#
# The temporaries $29 to $31 are zero between instructions, but for the path of a jump whose condition PISA does not have: there $31 is
# 1, and both ends of the pair set or clear it (`condition`). Refused: traps of numbers (fixed-point sums, quotients) and functions that PISA
# would have to compute in loops. Assertions are left out: a run in which it holds is the same without it.

S, T, U = 29, 30, 31
#: registers that the writer leaves to the program
OPERANDS = 29
_LOWEST = -FORMAT.sign
_UPDATE = {"add": "ADD", "sub": "SUB", "xor": "XOR"}
_INVERSE = {"ADD": "SUB", "SUB": "ADD", "RL": "RR", "RR": "RL"}
#: function of the table -> the instruction of PISA that updates by it
_EXCLUSIVE_OR = {
    plain.name.removesuffix(".xor"): (mnemonic, plain.fields)
    for mnemonic, plain in PLAIN.items()
    if plain.name.endswith(".xor")
}
_BIJECTIONS = {
    plain.name: (mnemonic, plain.fields) for mnemonic, plain in PLAIN.items() if "." not in plain.name
}  # fmt: skip


class Line(NamedTuple):
    """A PISA instruction: registers, a constant, the target of a branch as a label, the role of a branch, its own label."""

    mnemonic: str
    registers: tuple[int, ...] = ()
    constant: int | None = None
    target: str | None = None
    role: str | None = None
    label: str | None = None


Lines = list[Line]


def undone(lines: Lines) -> Lines:
    """The inverses of instructions that are no branches, last first."""
    return [_inverse(line) for line in reversed(lines)]


def _inverse(line: Line) -> Line:
    if line.mnemonic == "ADDI":
        assert line.constant is not None
        return _constant("ADDI", line.registers[0], -line.constant)
    return line._replace(mnemonic=_INVERSE.get(line.mnemonic, line.mnemonic))


def _constant(mnemonic: str, register: int, value: int) -> Line:
    return Line(mnemonic, (register,), FORMAT.signed(value & FORMAT.mask))


def condition(name: str, a: int, b: int) -> Lines:
    """$31 ^= 1 where the condition of a branch holds; its own inverse."""
    found: Lines = []
    match name.removeprefix("."):
        case "lt" | "ge":
            found = [Line("SLTX", (U, a, b))]
        case "ltu" | "geu":
            found = _unsigned(a, b)
        case "eq" | "ne":
            found = _unequal(a, b)
    return found if name in (".lt", ".ltu", ".ne") else [*found, _constant("XORI", U, 1)]


def _unsigned(a: int, b: int) -> Lines:
    """$31 ^= a < b, unsigned: the order of both with the highest bit inverted, signed."""
    if a == b:
        return []
    shift = [_constant("XORI", a, _LOWEST), _constant("XORI", b, _LOWEST)]
    return [*shift, Line("SLTX", (U, a, b)), *undone(shift)]


def _unequal(a: int, b: int) -> Lines:
    """$31 ^= a ≠ b: one of the two is less."""
    both = [Line("SLTX", (S, a, b)), Line("SLTX", (T, b, a))]
    return [*both, Line("ORX", (U, S, T)), *undone(both)]


def expansion(i: Instruction, base: int, label: str) -> Lines | None:
    """The instruction in PISA, or None where PISA has none. Data begins at address `base`; `label` begins labels of its own.

    No branch and no call. The number of lines does not depend on `base`.
    """
    entry = i.opcode.entry
    if isinstance(entry, Function):
        update = _UPDATE.get(i.opcode.update or "")
        return None if update is None else _function(entry.name, update, i, base)
    name = i.opcode.name
    d, a, b = i.rd, i.ra, i.rb
    match name:
        case "exch":
            reach = [_constant("ADDI", a, i.imm + base)]
            return [*reach, Line("EXCH", (d, a)), *undone(reach)]
        case "not":
            return [_constant("XORI", d, -1)]
        case "swap":
            return _swap(d, a)
        case "cswap":
            past, test = f"{label}.past", f"{label}.test"
            first = Line("BEQ", (b, U), target=past, role="goto", label=test)
            return [first, *_swap(d, a), Line("BEQ", (b, U), target=test, role="from", label=past)]
        case _ if name.startswith("assert"):
            return []
        case "unerase" | "irot" | "rot":
            return None
    mnemonic, fields = _BIJECTIONS[name]
    amount = i.imm % FORMAT.width if "amount" in fields else None
    return [Line(mnemonic, tuple(getattr(i, f) for f in fields if f != "amount"), amount)]


def _swap(d: int, a: int) -> Lines:
    return [Line("XOR", (d, a)), Line("XOR", (a, d)), Line("XOR", (d, a))]


def _function(name: str, update: str, i: Instruction, base: int) -> Lines | None:
    """rd ± f(ra, rb, constant, memory)."""
    d, a, b = i.rd, i.ra, i.rb
    match name:
        case "mov":
            return [Line(update, (d, a))]
        case "imm" | "immhi":
            value = i.imm << (FORMAT.width // 2 if name == "immhi" else 0)
            if update == "XOR":
                return [_constant("XORI", d, value)]
            return [_constant("ADDI", d, value if update == "ADD" else -value)]
        case "ld":
            reach = [_constant("ADDI", a, i.imm + base), Line("EXCH", (S, a))]
            return [*reach, Line(update, (d, S)), *undone(reach)]
        case "st":
            copy = [Line("XOR", (T, b))] if a == b else []
            reach = [*copy, _constant("ADDI", a, i.imm + base), Line("EXCH", (S, a))]
            return [*reach, Line(update, (S, T if a == b else b)), *undone(reach)]
        case "mul":
            return None if update == "XOR" else _product(d, a, b, update)
    if update == "XOR" and name in _EXCLUSIVE_OR:
        return [_exclusive_or(name, i, d)]
    computed = _value(name, i)
    return None if computed is None else [*computed, Line(update, (d, U)), *undone(computed)]


def _exclusive_or(name: str, i: Instruction, d: int) -> Line:
    """d ^= f(…) for a function that PISA has."""
    mnemonic, fields = _EXCLUSIVE_OR[name]
    registers = tuple(getattr(i, f) for f in fields[1:] if f in ("ra", "rb"))
    constant = i.imm % FORMAT.width if "amount" in fields else i.imm if "imm" in fields else None
    return Line(mnemonic, (d, *registers), constant)


def _value(name: str, i: Instruction) -> Lines | None:
    """$31 = f(…), from $31 = 0, with $29 and $30 zero before and after; None for a function that is refused."""
    a, b = i.ra, i.rb
    if name in _EXCLUSIVE_OR:
        return [_exclusive_or(name, i, U)]
    match name:
        case "sltu":
            return _unsigned(a, b)
        case "seq":
            return condition(".eq", a, b)
        case "min" | "max":
            # The difference in bits of a and b, masked where a < b, turns b into the smaller and a into the larger.
            mask = [Line("SLTX", (S, a, b)), Line("NEG", (S,)), Line("XOR", (T, a)), Line("XOR", (T, b))]
            return [*mask, Line("ANDX", (U, T, S)), *undone(mask), Line("XOR", (U, b if name == "min" else a))]
        case "abs":
            sign = [Line("SRAX", (S, a), FORMAT.width - 1)]
            return [*sign, Line("XOR", (U, a)), Line("XOR", (U, S)), Line("SUB", (U, S)), *undone(sign)]
        case "muli":
            found: Lines = []
            for shift in range(FORMAT.width):
                if i.imm >> shift & 1:
                    shifted = [Line("SLLX", (S, a), shift)]
                    found += [*shifted, Line("ADD", (U, S)), *shifted]
            return found
    return None


def _product(d: int, a: int, b: int, update: str) -> Lines:
    """d ± a·b: for each bit of b, a shifted by its place, masked by the bit."""
    found: Lines = []
    for shift in range(FORMAT.width):
        bit = [Line("SLLX", (S, b), FORMAT.width - 1 - shift)]
        mask = [*bit, Line("SRAX", (T, S), FORMAT.width - 1), *bit]
        masked = [*mask, Line("SLLX", (S, a), shift), Line("ANDX", (U, S, T))]
        found += [*masked, Line(update, (d, U)), *undone(masked)]
    return found
