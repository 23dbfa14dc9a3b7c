"""Reading assembly files: only regular files below the main file's folder, only text, only so much."""

from __future__ import annotations

import stat
from pathlib import Path

from retrograd.isa.diagnostics import AssemblyError, Diagnostic, Span
from retrograd.isa.files import read_file

#: bytes of one file, depth of includes, files in all: beyond any program, short of harm
MAX_BYTES = 64 << 20
MAX_DEPTH = 32
MAX_FILES = 1000


def decode_text(data: bytes, name: str) -> str:
    """The text of a file. Raises AssemblyError RG0118 for what is not UTF-8 or holds a NUL."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{name} is not text: byte 0x{data[error.start]:02x} at offset {error.start}"
        raise AssemblyError(Diagnostic("RG0118", message, Span(name, line))) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise AssemblyError(Diagnostic("RG0118", f"{name} is not text: it holds a NUL", Span(name, line)))
    return text


def read_include(path: str, including: Path, roots: tuple[Path, ...]) -> tuple[Path, str] | Diagnostic:
    """The file that an `.include` names, or what is wrong with it (without a span)."""
    try:
        candidates = [(including / path).resolve(), *((root / path).resolve() for root in roots)]
    except RuntimeError:
        return Diagnostic("RG0110", f"`{path}` cannot be read: its links go in circles")
    except (OSError, ValueError) as error:
        return Diagnostic("RG0110", f"`{path}` cannot be read: {getattr(error, 'strerror', None) or error}")
    allowed = [c for c in candidates if any(c.is_relative_to(root) for root in roots)]
    if not allowed or Path(path).is_absolute():
        return Diagnostic("RG0112", f"`{path}` is outside the program's folder")
    for candidate in allowed:
        try:
            status = candidate.stat()
            if not stat.S_ISREG(status.st_mode):
                return Diagnostic("RG0110", f"`{path}` is not a regular file")
            if status.st_size > MAX_BYTES:
                return Diagnostic("RG0110", f"`{path}` has {status.st_size} bytes; the limit is {MAX_BYTES}")
            return candidate, decode_text(read_file(candidate, MAX_BYTES), path)
        except AssemblyError as error:
            return error.diagnostics[0]
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            return Diagnostic("RG0110", f"`{path}` cannot be read: {getattr(error, 'strerror', None) or error}")
    return Diagnostic("RG0110", f"`{path}` does not exist")
