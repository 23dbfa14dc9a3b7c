"""Messages of traps: the instruction that could not execute, the guard that failed, and the word that it refused."""

from __future__ import annotations

from retrograd.isa.diagnostics import KINDS, Diagnostic
from retrograd.isa.encoding import inverse, write
from retrograd.isa.program import Program
from retrograd.simulator.cotangents import Fault


def trap_diagnostic(program: Program, fault: Fault, pc: int, direction: int, br: int, memory_words: int) -> Diagnostic:
    """The diagnostic of a fault at `pc`, in a machine that runs in this direction with this BR."""
    span = program.source.span(pc)
    way = "forward" if direction > 0 else "backward"
    if 0 <= pc < len(program.code):
        i = program.instructions[pc]
        executed = i if direction > 0 else inverse(i, program.table)
        where = f"pc {pc}, `{write(i)}` running {way}"
        if direction < 0 and executed != i:
            where += f" as `{write(executed)}`"
    else:
        where = f"pc {pc}, running {way}"
    detail = _detail(program, fault, br, memory_words)
    return Diagnostic(fault.code, f"{detail} (at {where})", span, line=program.source.line(span))


def _detail(program: Program, fault: Fault, br: int, memory_words: int) -> str:
    w, code, value = program.format, fault.code, fault.value
    shown = "" if value is None else f"{w.signed(value)}"
    fixed = "" if value is None else f"{float(w.to_real(value))}"
    match code:
        case "RG0404" if fault.cotangent:
            return f"cotangent overflow in {w}, with cotangent {fixed}"
        case "RG0408" if fault.cotangent:
            return f"freeing the ancilla would drop its cotangent, {fixed}, and erase {w.width} bits"
        case "RG0409" if fault.cotangent:
            return "the cotangent that was dropped when the ancilla was freed here cannot come back"
        case "RG0401":
            negative = f"; as a signed word it is {shown}" if shown.startswith("-") else ""
            return f"address {value} is outside the memory of {memory_words} words{negative}"
        case "RG0403":
            return f"the argument {fixed} is outside the function's domain"
        case "RG0404":
            return f"fixed-point overflow in {w}, with operand {fixed}"
        case "RG0405":
            return f"control arrived by a jump (BR = {shown}), and this instruction does not end it"
        case "RG0406" if br == 0:
            return "control came from above, but the comefrom's condition says that it came by the jump"
        case "RG0406":
            return f"control came by the jump (BR = {br}), but the comefrom's condition says otherwise"
        case "RG0407":
            return f"the ancilla holds {shown}, not zero: freeing it would erase {w.width} bits"
        case "RG0413":
            return f"the comparison of {shown} with another word does not hold"
        case "RG0410":
            return f"PC = {value} is outside the code of {len(program.code)} instructions"
    return KINDS[code].title
