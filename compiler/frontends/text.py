"""The text of a source that is read by hand: its lines, the places in it, and its tokens.

    SourceText(name, text).span(begin, end)      characters begin … end − 1  →  file, line, columns
    tokens(pattern, text)                        the tokens of a text; the groups of the pattern are their kinds

Readers of languages whose tokens run over lines (Janus, VLAD) share this file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from retrograd.isa.diagnostics import Diagnostic, Span

_LINE_END = re.compile(r"\r\n|[\n\r]")


@dataclass(frozen=True)
class SourceText:
    """A file's name and text. A line ends with a line feed, a carriage return, or both."""

    name: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends."""
        return _LINE_END.split(self.text)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(end.end() for end in _LINE_END.finditer(self.text))]

    @cached_property
    def _ends(self) -> list[int]:
        """The end of each line, without the blanks before it."""
        return [start + len(line.rstrip()) for start, line in zip(self._starts, self.lines, strict=True)]

    def span(self, begin: int, end: int) -> Span:
        """The place of the characters begin … end − 1; of several lines, their part of the first."""
        line = bisect_right(self._starts, begin)
        start = self._starts[line - 1]
        last = max(min(end, self._ends[line - 1]), begin + 1)
        return Span(self.name, line, begin - start + 1, last - start + 1)

    def line(self, span: Span) -> str | None:
        """The line of a place; None for a place that the text does not have."""
        return self.lines[span.line - 1] if 0 < span.line <= len(self.lines) else None

    def piece(self, span: Span) -> str:
        """The characters at a place."""
        return (self.line(span) or "")[span.column - 1 : span.end - 1]

    def diagnostic(self, code: str, message: str, span: Span, hint: str | None = None) -> Diagnostic:
        """A finding at a place of the text."""
        return Diagnostic(code, message, span, hint, self.line(span))


class Token(NamedTuple):
    """`kind`: the name of a group of the pattern; empty for a character that begins no token."""

    kind: str
    text: str
    begin: int

    @property
    def end(self) -> int:
        return self.begin + len(self.text)


def tokens(pattern: re.Pattern[str], text: str) -> Iterator[Token]:
    """The tokens of a text. Matches of the pattern outside of its groups, or in `space`, are passed over.

    >>> [*tokens(re.compile(r"(?P<number>[0-9]+)|(?P<space> )"), "12 a")]
    [Token(kind='number', text='12', begin=0), Token(kind='', text='a', begin=3)]
    """
    at = 0
    for found in pattern.finditer(text):
        begin, end = found.span()
        for passed in range(at, begin):
            yield Token("", text[passed], passed)
        at, kind = end, found.lastgroup
        if kind is not None and kind != "space":
            yield Token(kind, found[0], begin)
    for passed in range(at, len(text)):
        yield Token("", text[passed], passed)
