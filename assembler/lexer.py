"""Lexer: a line of assembly text as label, word and operands, with the columns of each.

Columns count from 0 within the line; a fault is reported at the columns that it carries.
"""

from __future__ import annotations

import re
import sys

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
