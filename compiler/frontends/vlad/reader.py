"""S-expressions with places: the text of a VLAD file as data.

    datum ::= number | symbol | #t | #f | (datum …) | (datum … . datum) | 'datum       ; and #| |# begin comments

Brackets are matched with a stack of our own, so depth is no limit here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from retrograd.compiler.frontends.functional.core import Place
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span

TOKEN = re.compile(
    r"""\s+|;[^\n]*|(?P<open>[(\[])|(?P<close>[)\]])|(?P<quote>')|(?P<comment>\#\|)|(?P<atom>[^\s()\[\]';]+)"""
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_CLOSING = {"(": ")", "[": "]"}


@dataclass(frozen=True)
class Symbol:
    name: str
    at: Place


@dataclass(frozen=True)
class Literal:
    """A number, or True or False."""

    value: float | bool
    at: Place


@dataclass(frozen=True)
class Items:
    """A list. `tail`: the datum behind a dot."""

    items: tuple[Datum, ...]
    at: Place
    tail: Datum | None = None


Datum = Symbol | Literal | Items


def fail(code: str, message: str, at: Place, hint: str | None = None) -> NoReturn:
    """Raise a CompileError that points at a place."""
    raise CompileError(Diagnostic(code, message, at.span, hint, at.text))


class Text:
    """A file's lines, and the places in it by the number of a character."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.lines: Sequence[str] = text.split("\n")
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        # The length of each line without the blanks at its end: to count it for each place would take the square of a line's length.
        self._lengths = [len(line.rstrip()) for line in self.lines]
        self._line = 0

    def place(self, begin: int, end: int) -> Place:
        """The place of some characters; of several lines, the first."""
        while self._starts[self._line] > begin:
            self._line -= 1
        while self._line + 1 < len(self.lines) and self._starts[self._line + 1] <= begin:
            self._line += 1
        start, line = self._starts[self._line], self.lines[self._line]
        last = min(end - start, max(self._lengths[self._line], begin - start + 1))
        return Place(Span(self.file, self._line + 1, begin - start + 1, max(last, begin - start + 1) + 1), line)


@dataclass
class _Open:
    """A bracket, or a quote (`bracket` "'"), that is not complete."""

    bracket: str
    begin: int
    items: list[Datum]
    tail: Datum | None = None
    #: where the dot stands
    dot: Place | None = None


def read(text: str, file: str) -> list[Datum]:
    """The data of a text. Raises CompileError RG0724."""
    source = Text(text, file)
    stack = [_Open("", 0, [])]
    at = 0

    def add(datum: Datum) -> None:
        while stack[-1].bracket == "'":
            quote = Symbol("quote", source.place(stack[-1].begin, stack[-1].begin + 1))
            stack.pop()
            datum = Items((quote, datum), quote.at)
        top = stack[-1]
        if top.dot is None:
            top.items.append(datum)
        elif top.tail is None:
            top.tail = datum
        else:
            fail("RG0724", "one datum stands behind the dot of a list", datum.at)

    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            fail("RG0724", f"`{text[at]}` begins nothing", source.place(at, at + 1))
        begin, at = at, found.end()
        kind = found.lastgroup
        if kind == "comment":
            end = text.find("|#", at)
            if end < 0:
                fail("RG0724", "this comment is not closed", source.place(begin, begin + 2), "Close it with `|#`.")
            at = end + 2
        elif kind == "open":
            stack.append(_Open(found.group(), begin, []))
        elif kind == "quote":
            stack.append(_Open("'", begin, []))
        elif kind == "close":
            top = stack[-1]
            place = source.place(begin, at)
            if top.bracket == "'":
                fail("RG0724", "a quote without a datum", source.place(top.begin, top.begin + 1))
            if not top.bracket:
                fail("RG0724", f"`{found.group()}` closes no bracket", place)
            if found.group() != _CLOSING[top.bracket]:
                opened = source.place(top.begin, top.begin + 1).span
                message = f"`{found.group()}` closes the `{top.bracket}` of line {opened.line}, column {opened.column}"
                fail("RG0724", message, place, f"Write `{_CLOSING[top.bracket]}`.")
            if top.dot is not None and top.tail is None:
                fail("RG0724", "nothing stands behind the dot", top.dot)
            stack.pop()
            add(Items(tuple(top.items), source.place(top.begin, at), top.tail))
        elif kind == "atom":
            place = source.place(begin, at)
            if found.group() == ".":
                if not stack[-1].items or stack[-1].dot is not None:
                    fail("RG0724", "a dot stands behind the items of a list", place)
                stack[-1].dot = place
            else:
                add(_atom(found.group(), place))
    top = stack[-1]
    if top.bracket:
        opened_at = source.place(top.begin, top.begin + 1)
        if top.bracket == "'":
            fail("RG0724", "a quote without a datum", opened_at)
        fail(
            "RG0724",
            f"this `{top.bracket}` is not closed",
            opened_at,
            f"Write `{_CLOSING[top.bracket]}` behind its list.",
        )
    return stack[0].items


def _atom(text: str, at: Place) -> Datum:
    if text in ("#t", "#f", "#true", "#false"):
        return Literal(text.startswith("#t"), at)
    if _NUMBER.fullmatch(text):
        value = float(text)
        if math.isinf(value):
            fail("RG0714", f"{text:.40} is too large", at)
        return Literal(value, at)
    if text.startswith(("#", '"')):
        fail("RG0724", f"`{text:.40}` is not in VLAD", at, "Values are numbers, #t, #f, symbols, lists and functions.")
    return Symbol(text, at)


def shown(datum: Datum, depth: int = 2) -> str:
    """The datum as text, shortened."""
    match datum:
        case Symbol(name):
            return name if len(name) <= 40 else f"{name[:37]}…"
        case Literal(bool() as truth):
            return "#t" if truth else "#f"
        case Literal(value):
            return f"{value:g}"
        case Items(items, _, tail):
            if depth < 0:
                return "(…)"
            inner = " ".join(shown(i, depth - 1) for i in items[:8])
            return f"({inner}{' …' if len(items) > 8 else ''}{'' if tail is None else f' . {shown(tail, depth - 1)}'})"
