"""Lexer: a line of assembly text as label, word and operands, with the columns of each.

Columns count from 0 within the line; a fault is reported at the columns that it carries.
"""

from __future__ import annotations

import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from retrograd.isa.diagnostics import AssemblyError, Diagnostic, Span
from retrograd.isa.files import read_file

_NAME = re.compile(r"[A-Za-z_][\w.]*")
_LINE = re.compile(r"\s*(?:([A-Za-z_][\w.]*)\s*:)?\s*([A-Za-z_.][\w.]*)?(.*)", re.DOTALL)
_OPERAND = re.compile(r"((?:'(?:\\.|[^\\])'|[^,])*),")
_STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "\\": 92, "'": 39, '"': 34}


class TextFault(Exception):
    """A fault in a text: code, message, columns from 0, and the name that has no value where that is the fault."""

    def __init__(
        self, code: str, message: str, start: int, end: int, hint: str | None = None, name: str | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.start, self.end = code, message, start, max(end, start + 1)
        self.hint, self.name = hint, name

    def moved(self, by: int) -> TextFault:
        """The fault where the text stands `by` columns further right."""
        return TextFault(self.code, self.message, self.start + by, self.end + by, self.hint, self.name)


def is_name(text: str) -> bool:
    """Whether the text can name a label, a constant or a register."""
    return _NAME.fullmatch(text) is not None


def name_in(text: str) -> re.Match[str] | None:
    """The first name in the text."""
    return _NAME.search(text)


def checked_name(text: str, at: int) -> str:
    """The text, which must be a name. Raises TextFault RG0113."""
    if not is_name(text):
        raise TextFault("RG0113", f"`{text}` is not a name", at, at + len(text))
    return text


def parts_of(line: str) -> re.Match[str]:
    """A line without its comment: groups label, word (either may be None), rest."""
    found = _LINE.match(_without_comment(line) if ";" in line else line)
    assert found is not None, "every group of the pattern may be empty"
    return found


def _without_comment(line: str) -> str:
    """The line up to the first ';' outside quotes."""
    if '"' not in line and "'" not in line:
        return line[: line.index(";")]
    quote = ""
    i = 0
    while i < len(line):
        c = line[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = ""
        elif c in "\"'":
            quote = c
        elif c == ";":
            return line[:i]
        i += 1
    return line


def split_operands(text: str) -> list[str]:
    """The pieces between commas, blanks included; a comma in quotes separates nothing."""
    return text.split(",") if "'" not in text else _OPERAND.findall(text + ",")


def stripped(text: str, at: int) -> tuple[str, int]:
    """The text without the blanks around it, and the column at which that begins."""
    return text.strip(), at + len(text) - len(text.lstrip())


def arguments(rest: str, column: int, count: int, syntax: str) -> list[tuple[str, int]]:
    """(operand, column) of a word that takes `count` operands. Raises TextFault RG0102 for another number."""
    parts = split_operands(rest) if rest.strip() else []
    if len(parts) != count:
        raise TextFault("RG0102", f"expected `{syntax}`", column, column + len(rest.rstrip()), f"write `{syntax}`")
    out, at = [], column
    for part in parts:
        out.append(stripped(part, at))
        at += len(part) + 1
    return out


def quoted(rest: str, column: int) -> tuple[str, int]:
    """The inside of the one string in the text, and its column. Raises TextFault RG0113."""
    text, at = stripped(rest, column)
    found = _STRING.fullmatch(text)
    if found is None:
        raise TextFault("RG0113", 'expected one string in "quotes"', at, at + len(text))
    return found.group(1), at + 1


def escape(character: str) -> int | None:
    """The character that a backslash and this character stand for, or None."""
    return _ESCAPES.get(character)


def unescaped(body: str, at: int) -> str:
    """The text that the inside of a string denotes. Raises TextFault RG0113 for an unknown escape."""

    def character(found: re.Match[str]) -> str:
        value = escape(found[1]) if found[2] is None else int(found[2], 16)
        if value is None or value > sys.maxunicode:
            raise TextFault("RG0113", f"unknown escape `{found[0]}`", at + found.start(), at + found.end())
        return chr(value)

    return re.sub(r"\\(u\{([0-9a-fA-F]{1,6})\}|.)", character, body, flags=re.DOTALL)


# -----------------------------------------------------------------------------
# The sources of a program: its files, the line that is being read, and the faults found so far.
#
# An assembly file may come from anywhere. So an `.include` reads regular text files of limited size, below the folder of the main
# file or below folders that the user names, and no others.

#: bytes of one file, depth of includes, files in all: beyond any program, short of harm
MAX_BYTES = 64 << 20
MAX_DEPTH = 32
MAX_FILES = 1000
MAX_ERRORS = 50

#: (index of the file, line, first column, one past the last column), all but the index from 1: as `SourceMap` keeps them
Position = tuple[int, int, int, int]


@dataclass(frozen=True)
class SourceFile:
    """A file that has been opened: its number, its name in messages, the folder that its includes are relative to."""

    index: int
    name: str
    folder: Path | None
    lines: Sequence[str]


class Sources:
    """The files of a program in the order in which they are opened; every fault of them is reported in one go."""

    def __init__(self, roots: tuple[Path, ...]) -> None:
        #: the folders below which includes are read
        self.roots = roots
        self.files: list[SourceFile] = []
        self.errors: list[Diagnostic] = []
        #: literals that lose bits: one warning for each text in a line
        self._warned: dict[tuple[int, int, str], Diagnostic] = {}
        #: the file and the number of the line that is being read
        self.file: SourceFile
        self.line = 0
        self._open: list[Path] = []

    @contextmanager
    def opened(self, name: str, text: str, path: Path | None) -> Iterator[SourceFile]:
        """The text as the file that is being read; afterwards, the file that includes it is being read again."""
        if len(self.files) >= MAX_FILES:
            raise self.stop("RG0116", f"more than {MAX_FILES} files")
        outer = (self.file, self.line) if self.files else None
        self.file = SourceFile(len(self.files), name, path.parent if path else None, text.split("\n"))
        self.files.append(self.file)
        self._open += [path] if path else []
        yield self.file
        if path:
            self._open.pop()
        if outer is not None:
            self.file, self.line = outer

    def included(self, name: str, at: int) -> tuple[str, str, Path]:
        """(name in messages, text, path) of the file that an `.include` names. Raises TextFault RG0110, RG0111, RG0112."""
        end = at + len(name)
        if self.file.folder is None:
            raise TextFault("RG0110", "a text without a file includes nothing", at, end)
        got = read_include(name, self.file.folder, self.roots)
        if isinstance(got, Diagnostic):
            raise TextFault(got.code, got.message, at, end)
        path, text = got
        if path in self._open:
            raise TextFault("RG0111", f"`{name}` is being read already", at, end)
        if len(self._open) > MAX_DEPTH:
            raise TextFault("RG0111", f"includes nest more than {MAX_DEPTH} deep", at, end)
        return str(Path(self.file.name).parent / name), text, path

    def position(self, start: int, end: int) -> Position:
        """Columns of the line that is being read, from 0, as a position."""
        return self.file.index, self.line, start + 1, end + 1

    def stop(self, code: str, message: str, span: Span | None = None) -> AssemblyError:
        """The error that ends the reading at once, after the faults found so far."""
        return AssemblyError(*self.errors, Diagnostic(code, message, span))

    def warn(self, fault: TextFault) -> None:
        """Note a fault in the line that is being read that is no error."""
        position = self.position(fault.start, fault.end)
        warning = self.finding(position, fault.code, fault.message, fault.hint, "warning")
        self._warned.setdefault((position[0], position[1], fault.message), warning)

    @property
    def warnings(self) -> list[Diagnostic]:
        """The warnings that `warn` has noted."""
        return [*self._warned.values()]

    def finding(
        self, position: Position, code: str, message: str, hint: str | None, severity: str = "error"
    ) -> Diagnostic:
        """A finding at a place of the program."""
        index, number, column, end = position
        file = self.files[index]
        return Diagnostic(code, message, Span(file.name, number, column, end), hint, file.lines[number - 1], severity)

    def report(self, position: Position, fault: TextFault, hint: str | None) -> None:
        """Add a fault to the errors. Raises AssemblyError at the last that is reported."""
        index, number, column, end = position
        line = self.files[index].lines[number - 1]
        # Operands come with the blanks around them; the caret does not.
        while column < end - 1 and line[column - 1 : column].isspace():
            column += 1
        while end - 1 > column and line[end - 2 : end - 1].isspace():
            end -= 1
        self.errors.append(self.finding((index, number, column, end), fault.code, fault.message, hint))
        if len(self.errors) == MAX_ERRORS:
            raise AssemblyError(*self.errors) from None


def decode_text(data: bytes, name: str) -> str:
    """The text of a file. Raises AssemblyError RG0118 for bytes that are not UTF-8 or hold a NUL."""
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
    """The path and text of the file that an `.include` names, or a diagnostic without a span."""
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
