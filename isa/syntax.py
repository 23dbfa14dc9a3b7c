"""Instructions as text: the one way in which an instruction is written, derived from its operands."""

from __future__ import annotations

from collections.abc import Callable

from retrograd.isa.encoding import Instruction


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
