"""Program -> assembly text that assembles to the same program."""

from __future__ import annotations

import re
from collections.abc import Callable

from retrograd.isa.diagnostics import printable
from retrograd.isa.encoding import write
from retrograd.isa.program import Program

#: a label as the assembler reads it: a name that is no register
_NAME = re.compile(r"(?!r(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])$)[A-Za-z_][\w.]*")
_DATA_PER_LINE = 8


def disassemble(
    program: Program, *, addresses: bool = False, comment: Callable[[int], str | None] | None = None
) -> str:
    """The program as text; labels keep their names, others are made up. Inverse: `assemble`.

    With `addresses`, each instruction carries its address and encoding in a comment; `comment(address)` gives another.
    Raises ImageError RG0306 for a word that is no instruction.
    """
    names = _code_names(program)
    out = [f".format {program.format.width}, {program.format.frac}"]
    if program.memory > len(program.data):
        out.append(f".memory {program.memory}")
    if program.data or program.data_labels:
        out += [".data", *_data(program), ".text"]
    by_address: dict[int, list[str]] = {}
    for name, pc in names.items():
        by_address.setdefault(pc, []).append(name)
    first = {pc: found[0] for pc, found in by_address.items()}
    quoted: dict[int, list[str]] = {}
    for name, pc in program.labels.items():
        if name and name not in names and 0 <= pc <= len(program.code):
            quoted.setdefault(pc, []).append(f".label {_quoted(name)}")
    for pc, i in enumerate(program.instructions):
        out += [f"{name}:" for name in by_address.get(pc, ())] + quoted.get(pc, [])
        text = write(i, lambda distance, pc=pc: first.get(pc + distance, f".{distance:+d}"))  # type: ignore[misc]
        notes = [f"{pc}: {program.code[pc]:016x}"] if addresses else []
        said = comment(pc) if comment is not None else None
        if said:
            notes.append(printable(said))
        out.append(f"    {text:<40} ; {'  '.join(notes)}" if notes else f"    {text}")
    end = len(program.code)
    out += [f"{name}:" for name in by_address.get(end, ())] + quoted.get(end, [])
    return "\n".join(out) + "\n"


def _quoted(name: str) -> str:
    """A name as a string of the assembler."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in escaped) + '"'


def _code_names(program: Program) -> dict[str, int]:
    """Labels by name: the program's own where they can be written, and one for every other target."""
    size = len(program.code)
    taken = set(program.data_labels)
    names = {
        name: pc
        for name, pc in program.labels.items()
        if _NAME.fullmatch(name) and 0 <= pc <= size and name not in taken
    }
    labelled = set(names.values())
    targets = {
        pc + i.opcode.distance(i.imm) for pc, i in enumerate(program.instructions) if "target" in i.opcode.operands
    }
    number = 0
    for pc in sorted(t for t in targets - labelled if 0 <= t < size):
        while f"L{number}" in names or f"L{number}" in taken:
            number += 1
        names[f"L{number}"] = pc
        number += 1
    return names


def _data(program: Program) -> list[str]:
    """The data section: labels, words, and runs of zeros in one line; then the labels of words that have no value yet."""
    out: list[str] = []
    at: dict[int, list[str]] = {}
    apart: list[str] = []
    for name, address in program.data_labels.items():
        if _NAME.fullmatch(name) and 0 <= address <= len(program.data):
            at.setdefault(address, []).append(name)
        elif name:
            apart.append(f".label {name if _NAME.fullmatch(name) else _quoted(name)}, {address}")
    stops = sorted({0, len(program.data), *at})
    for begin, end in zip(stops, [*stops[1:], len(program.data)], strict=True):
        out += [f"{name}:" for name in at.get(begin, ())]
        block = program.data[begin:end]
        i = 0
        while i < len(block):
            zeros = i
            while zeros < len(block) and block[zeros] == 0:
                zeros += 1
            if zeros - i > _DATA_PER_LINE:
                out.append(f"    .zero {zeros - i}")
                i = zeros
                continue
            out.append("    .word " + ", ".join(str(x) for x in block[i : i + _DATA_PER_LINE]))
            i += _DATA_PER_LINE
    return out + apart
