"""Assembly text -> Program, in two passes.

The parser (`parser.py`) reads lines, encodes instructions, and notes the constants whose value it does not know yet; the layout
(`layout.py`) fills them in. Every fault of a text is reported in one go.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path

from retrograd.assembler.parser import Parser
from retrograd.assembler.sources import MAX_BYTES, decode_text
from retrograd.assembler.verify import verify
from retrograd.isa.diagnostics import PrecisionWarning
from retrograd.isa.files import read_stream
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Q32_32, Format, format_of


def assemble(
    text: str,
    *,
    name: str = "<text>",
    path: Path | None = None,
    include: Iterable[Path] = (),
    table: Table = TABLE,
    format: Format | str = Q32_32,
    check: bool = True,
) -> Program:
    """The program that the text denotes, verified unless `check` is off. Inverse: `disassemble`.

    `.include` reads files below the folder of `path` and the folders in `include`, and nothing without a path.
    Warns with PrecisionWarning of a literal that loses more than half of its bits. Raises AssemblyError or VerificationError with
    every fault found.
    """
    roots = tuple(p.resolve() for p in ([] if path is None else [path.parent]) + list(include))
    parser = Parser(table, format_of(format), roots)
    parser.read(name, text, None if path is None else path.resolve())
    program = parser.program()
    for d in parser.sources.warnings:
        assert d.span is not None
        warning = PrecisionWarning(f"{d.message}. {d.hint}")
        warning.span = d.span
        warnings.warn_explicit(warning, PrecisionWarning, d.span.file, d.span.line)
    if check:
        verify(program)
    return program


def assemble_file(path: str | os.PathLike[str], **options: object) -> Program:
    """`assemble` for a file.

    Raises AssemblyError RG0118 for a file that is not text, InputError RG0514 for a file that is too large, OSError for an unreadable one.
    """
    with open(path, "rb", buffering=0) as file:
        data = read_stream(file, os.fspath(path), MAX_BYTES)
    return assemble(decode_text(data, os.fspath(path)), name=os.fspath(path), path=Path(path), **options)  # type: ignore[arg-type]
