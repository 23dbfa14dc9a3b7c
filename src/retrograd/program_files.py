"""Programs in files: assembly text or an image, distinguished by content."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from retrograd.assembler.assemble import assemble
from retrograd.assembler.image import MAGIC, from_image
from retrograd.assembler.sources import decode_text
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.files import read_file
from retrograd.isa.program import Program


def program_from(
    data: bytes, name: str, path: Path | None = None, include: Sequence[str] = (), *, check: bool = True
) -> Program:
    """The program that the bytes of a file hold; verified unless `check` is off. Raises RetrogradError."""
    if data.startswith(MAGIC[:4]):
        program = from_image(data)
        if check:
            from retrograd.assembler.verify import verify

            verify(program)
        return program
    return assemble(decode_text(data, name), name=name, path=path, include=_folders(include), check=check)


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
