"""Recordings as value change dumps (IEEE 1364), for GTKWave and Surfer.

    time of step n = cycles of the steps before it;   1 ns stands for a cycle

At the beginning of a step `pc`, `mnemonic`, `operands`, `line`, `backward` and `D` change; at its end the words that it changed. Going
backward, the instruction is the inverse that executes. Texts have no blanks: viewers differ in how they read these.
"""

from __future__ import annotations

import io
import re

from vcd import VCDWriter

from retrograd.debugger.recording import Bank, Recording
from retrograd.explorer.document import names

#: bank -> scope of its words
_SCOPES = {
    Bank.REGISTER: "registers",
    Bank.MEMORY: "memory",
    Bank.REGISTER_COTANGENT: "cotangents.registers",
    Bank.MEMORY_COTANGENT: "cotangents.memory",
}


def vcd(recording: Recording) -> bytes:
    """The recording as a value change dump: the words that it changes, and the state of control."""
    program = recording.program
    width = program.format.width
    listed = sorted(
        {(c.bank, c.number) for step in recording.steps for c in step.changes}, key=lambda p: (p[0].value, p[1])
    )
    shown = names(listed, program, recording.memory_words)
    out = io.StringIO()
    with VCDWriter(out, timescale="1 ns", date="", comment="1 ns is a cycle of the co-processor") as writer:
        register = writer.register_var
        pc, br = (register("run", name, "reg", 32, init=0) for name in ("pc", "BR"))
        backward, lifted = register("run", "backward", "wire", 1), register("run", "D", "wire", 1)
        mnemonic, operands, line = (register("run", name, "string") for name in ("mnemonic", "operands", "line"))
        words = {
            (bank, n): register(_SCOPES[bank], _identifier(name), "reg", width, init=recording.start.get((bank, n), 0))
            for (bank, n), name in zip(listed, shown, strict=True)
        }
        time = 0
        for step in recording.steps:
            span = program.source.span(step.pc)
            writer.change(pc, time, step.pc)
            name, _, rest = step.text(program).partition(" ")
            writer.change(mnemonic, time, name)
            writer.change(operands, time, rest.replace(" ", ""))
            writer.change(line, time, "" if span is None else f"{span.file}:{span.line}".replace(" ", "_"))
            writer.change(backward, time, step.direction < 0)
            writer.change(lifted, time, step.differentiating)
            time += step.execution(program).cycles(program.format)
            writer.change(br, time, step.br & 0xFFFFFFFF)
            for change in step.changes:
                writer.change(words[change.bank, change.number], time, change.after)
        writer.change(pc, time, recording.last[0])
        writer.close(time + 1)
    return out.getvalue().encode("utf-8", "replace")


def _identifier(name: str) -> str:
    """The name in ASCII without blanks, and with x(3) for x[3], which viewers take for a bit."""
    plain = re.sub(r"\s+", "_", name.removeprefix("∂").replace("[", "(").replace("]", ")"))
    return plain.encode("ascii", "backslashreplace").decode()
