"""Recordings as Kanata logs (version 4), for the pipeline viewer Konata.

Cycles are those of the co-processor, which executes one instruction at a time: each has the stages of its microprogram. Time goes on while
the machine runs backward; thread 0 runs forward and thread 1 backward.

Source: docs/kanata-log-format.md of Konata.
"""

from __future__ import annotations

from retrograd.debugger.recording import Recording
from retrograd.explorer.document import names

#: stage -> its name in the log; viewers take a stage with an X for the execution
_STAGES = {"fetch": "F", "decode": "D", "read": "R", "address": "A", "access": "M", "execute": "X", "write": "W"}


def kanata(recording: Recording) -> bytes:
    """The recording as a Kanata log."""
    program = recording.program
    out = ["Kanata\t0004", "C=\t0"]
    for n, step in enumerate(recording.steps):
        span = program.source.span(step.pc)
        out += [
            f"I\t{n}\t{recording.first + n}\t{int(step.direction < 0)}",
            f"L\t{n}\t0\t{step.pc}: {_plain(step.text(program))}",
        ]
        details = [] if span is None else [f"{span.file}:{span.line}"]
        places = names([(c.bank, c.number) for c in step.changes], program, recording.memory_words)
        signed = program.format.signed
        details += [
            f"{name}: {signed(c.before)} -> {signed(c.after)}" for name, c in zip(places, step.changes, strict=True)
        ]
        if details:
            out.append(f"L\t{n}\t1\t" + "\\n".join(map(_plain, details)))
        for stage, cycles in step.execution(program).stages(program.format).items():
            out += [f"S\t{n}\t0\t{_STAGES[stage]}", f"C\t{cycles}", f"E\t{n}\t0\t{_STAGES[stage]}"]
        out.append(f"R\t{n}\t{n}\t0")
    return "\n".join([*out, ""]).encode("utf-8", "replace")


def _plain(text: str) -> str:
    """A text without tabs and ends of lines, which separate the fields of the log."""
    return " ".join(text.split())
