"""Instructions as 64 bits, `op:8 rd:8 ra:8 rb:8 imm:32`, and as text. Fields that an opcode does not use are zero."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from retrograd.isa.diagnostics import Diagnostic, ImageError
from retrograd.isa.entries import REGISTER_PLACES, Opcode
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format

CODE_SHIFT, RD_SHIFT, RA_SHIFT, RB_SHIFT = 56, 48, 40, 32
FIELD_SHIFT = {"rd": RD_SHIFT, "ra": RA_SHIFT, "rb": RB_SHIFT}
IMMEDIATE_MIN, IMMEDIATE_MAX = -(1 << 31), (1 << 31) - 1
_new = tuple.__new__


class DistinctFields(NamedTuple):
    """Two register fields x and y that must differ, k ≥ 8 bits apart: `(word >> shift & mask) % modulus` is 0 where they are equal.

    2^k · x + y ≡ y − x modulo 2^k + 1, and |y − x| is less than the modulus.
    """

    shift: int
    mask: int
    modulus: int


@cache
def distinct_fields(opcode: Opcode) -> tuple[DistinctFields, ...]:
    """The pairs of register fields of an opcode that must not name one register."""
    out = []
    for pair in opcode.distinct:
        low, high = sorted(FIELD_SHIFT[name] for name in pair)
        out.append(DistinctFields(low, (255 << high - low) + 255, (1 << high - low) + 1))
    return tuple(out)


@cache
def _rules(opcode: Opcode) -> tuple[int, tuple[DistinctFields, ...], int]:
    """The conditions of `illegality` on encodings: bits that must be zero, fields that must differ, and the least constant."""
    unused = sum(0xFFFFFFFF if name == "imm" else 255 << FIELD_SHIFT[name] for name in opcode.unused_fields)
    return unused, distinct_fields(opcode), IMMEDIATE_MIN + opcode.negates_immediate


class Instruction(NamedTuple):
    """One instruction: an opcode and its operands; `imm` is signed."""

    opcode: Opcode
    rd: int = 0
    ra: int = 0
    rb: int = 0
    imm: int = 0


def encode(i: Instruction) -> int:
    """The 64 bits of an instruction. Inverse: `decode`.

    Raises ValueError for an operand out of its range, a used-up alias, or a field the opcode does not use.
    """
    if not (0 <= i.rd <= 255 and 0 <= i.ra <= 255 and 0 <= i.rb <= 255):
        name = next(name for name in ("rd", "ra", "rb") if not 0 <= getattr(i, name) <= 255)
        raise ValueError(f"{i.opcode.name}: {name} = {getattr(i, name)} is no register")
    if not IMMEDIATE_MIN <= i.imm <= IMMEDIATE_MAX:
        raise ValueError(f"{i.opcode.name}: constant {i.imm} does not fit in 32 bits")
    fault = illegality(i)
    if fault is not None:
        raise ValueError(fault)
    return (
        i.opcode.code << CODE_SHIFT
        | i.rd << RD_SHIFT
        | i.ra << RA_SHIFT
        | i.rb << RB_SHIFT
        | (i.imm & 0xFFFFFFFF)
    )  # fmt: skip


def illegality(i: Instruction) -> str | None:
    """The reason why the machine refuses the instruction at load, or None."""
    for name in i.opcode.unused_fields:
        if getattr(i, name):
            return f"{i.opcode.name}: field {name} is not used and must be zero, not {getattr(i, name)}"
    for x, y in i.opcode.distinct:
        if getattr(i, x) == getattr(i, y):
            of = "" if REGISTER_PLACES[x] in i.opcode.writes else "the cotangent of "
            return f"{i.opcode.name}: {x} and {y} are both r{getattr(i, x)}, but {of}{x} is written"
    if i.opcode.negates_immediate and i.imm == IMMEDIATE_MIN:
        return f"{i.opcode.name}: the offset −2^31 has no inverse in 32 bits"
    return None


def decode(word: int, table: Table = TABLE) -> Instruction:
    """The instruction that 64 bits encode. Inverse: `encode`.

    Raises ImageError RG0306 for bits that are no instruction.
    """
    opcode = table.by_code[word >> CODE_SHIFT & 255]
    if opcode is None or not 0 <= word < 1 << 64:
        raise ImageError(Diagnostic("RG0306", f"0x{word:016x} is no instruction: unknown opcode"))
    registers, immediate = word >> 32, word & 0xFFFFFFFF
    if immediate & 0x80000000:
        immediate -= 1 << 32
    # This is Instruction(…), without the call of a function in Python.
    i: Instruction = _new(
        Instruction, (opcode, registers >> 16 & 255, registers >> 8 & 255, registers & 255, immediate)
    )
    unused, distinct, least = _rules(opcode)
    legal = not word & unused and immediate >= least
    for shift, mask, modulus in distinct:
        legal = legal and (word >> shift & mask) % modulus != 0
    if not legal:
        raise ImageError(Diagnostic("RG0306", f"0x{word:016x} is no instruction: {illegality(i)}"))
    return i


def inverse(i: Instruction, table: Table = TABLE) -> Instruction:
    """The instruction that undoes `i`: the partner opcode on the same operands, a branch's offset negated."""
    opcode, rd, ra, rb, imm = i
    return Instruction(table.inverse(opcode), rd, ra, rb, -imm if opcode.negates_immediate else imm)


def has_word(i: Instruction, w: Format) -> bool:
    """Whether the constant of an instruction is a word of the format, and that of its inverse."""
    return -w.sign + i.opcode.negates_immediate <= i.imm < w.sign


# ---------------------------------------------------------------- text


def distance_text(distance: int) -> str:
    """A branch target without labels: relative to the branch itself."""
    return f".{distance:+d}"


def address_text(constant: int) -> str:
    """The constant of a memory operand, after its register."""
    return "" if constant == 0 else f" {'-' if constant < 0 else '+'} {abs(constant)}"


def write(i: Instruction, target: Callable[[int], str] = distance_text) -> str:
    """The instruction as the assembler reads it; `target` names the other end of a branch by its distance."""
    operands: list[str] = []
    for kind in i.opcode.operands:
        match kind:
            case "rd":
                operands.append(f"r{i.rd}")
            case "ra":
                operands.append(f"r{i.ra}")
            case "rb":
                operands.append(f"r{i.rb}")
            case "[ra+imm]":
                operands.append(f"[r{i.ra}{address_text(i.imm)}]")
            case "imm":
                operands.append(str(i.imm))
            case "target":
                operands.append(target(i.opcode.distance(i.imm)))
    return f"{i.opcode.name} {', '.join(operands)}".rstrip()
