"""Programs in files: an image, PISA assembly, or assembly text, distinguished by content and suffix. `rg.Machine` reads them, too."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from retrograd.assembler.assemble import assemble
from retrograd.assembler.image import MAGIC, from_image
from retrograd.assembler.lexer import decode_text
from retrograd.isa import program
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.files import read_file
from retrograd.isa.program import Program
from retrograd.simulator.machine import Machine


def program_from(
    data: bytes, name: str, path: Path | None = None, include: Sequence[str] = (), *, check: bool = True
) -> Program:
    """The program that the bytes of a file hold; verified unless `check` is off. Raises RetrogradError.

    The branches of PISA assembly are always checked: without pairs they have no encoding.
    """
    if data.startswith(MAGIC[:4]):
        program = from_image(data)
        if check:
            from retrograd.assembler.verify import verify

            verify(program)
        return program
    text = decode_text(data, name)
    if is_pisa(data, name):
        from retrograd.assembler.pisa_reader import read

        return read(text, name=name)
    return assemble(text, name=name, path=path, include=_folders(include), check=check)


def is_pisa(data: bytes, name: str) -> bool:
    """Whether a file holds PISA assembly: its suffix is .pisa or .pal, or its first line is the header of such files."""
    return name.lower().endswith((".pisa", ".pal")) or data.startswith(b";; pendulum pal file")


def _folders(include: Sequence[str]) -> list[Path]:
    """The folders that `.include` may read from, links followed. Raises InputError RG0501."""
    out = []
    for folder in include:
        try:
            out.append(Path(folder).resolve())
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links that go in circles
            raise InputError(Diagnostic("RG0501", f"-I {folder:.60}: {error}")) from None
    return out


def load_program(path: str | os.PathLike[str]) -> Program:
    """The program in a file, verified. Raises InputError RG0501, RG0514, and as `program_from`."""
    return program_from(read_file(Path(path)), str(path), Path(path))


# -----------------------------------------------------------------------------
# `rg.Machine`: the reference machine; a program may also be given as the path of its file.

__all__ = ["Machine"]

program.reader = load_program
