"""The text of a VLAD file as data.

    datum ::= number | symbol | #t | #f | (datum …) | (datum … . datum) | 'datum       ; and #| |# and #; begin comments

Brackets are matched with a stack of our own, so depth is no limit to data.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from retrograd.compiler.frontends.functional.core import Place, fail
from retrograd.compiler.frontends.text import SourceText, tokens


def _nested(depth: int) -> str:
    """The pattern of a comment between #| and |#, which may hold such comments, as deep as given."""
    inside = r"(?!\#\||\|\#)." + (f"|{_nested(depth - 1)}" if depth else "")
    return rf"\#\|(?:{inside})*\|\#"


TOKEN = re.compile(
    rf"""\s+|;[^\n]*|{_nested(4)}|(?P<skip>\#;)|(?P<text>"[^"\n]*")|(?P<open>[(\[])|(?P<close>[)\]])|(?P<quote>')"""
    r"""|(?P<comment>\#\|)|(?P<atom>[^\s()\[\]';]+)""",
    re.DOTALL,
)
_WHOLE = re.compile(r"#(?:b([+-]?[01]+)|o([+-]?[0-7]+)|d([+-]?[0-9]+)|x([+-]?[0-9a-fA-F]+))")
_BASES = (2, 8, 10, 16)
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


_PREFIXES = {"'": "a quote without a datum", "#;": "no datum that could be left out behind `#;`"}


@dataclass
class _Open:
    """A bracket, a quote, or the mark `#;` of a datum that is left out, that is not complete."""

    bracket: str
    begin: int
    items: list[Datum]
    tail: Datum | None = None
    #: where the dot stands
    dot: Place | None = None


def read_data(text: str, file: str) -> list[Datum]:
    """The data of a text. Raises CompileError RG0724."""
    source = SourceText(file, text)
    stack = [_Open("", 0, [])]

    def place(begin: int, end: int) -> Place:
        span = source.span(begin, end)
        return Place(span, source.line(span))

    def add(datum: Datum) -> None:
        while stack[-1].bracket == "'":
            quote = Symbol("quote", place(stack[-1].begin, stack[-1].begin + 1))
            stack.pop()
            datum = Items((quote, datum), quote.at)
        top = stack[-1]
        if top.bracket == "#;":
            stack.pop()
        elif top.dot is None:
            top.items.append(datum)
        elif top.tail is None:
            top.tail = datum
        else:
            fail("RG0724", "one datum stands behind the dot of a list", datum.at)

    for token in tokens(TOKEN, text):
        kind, word, begin = token
        if kind == "comment":
            fail("RG0724", "this comment is not closed", place(begin, token.end), "Close it with `|#`.")
        elif kind == "open" or kind in ("quote", "skip"):
            stack.append(_Open(word, begin, []))
        elif kind == "text":
            add(Symbol(word, place(begin, token.end)))
        elif kind == "close":
            top = stack[-1]
            here = place(begin, token.end)
            if top.bracket in _PREFIXES:
                fail("RG0724", _PREFIXES[top.bracket], place(top.begin, top.begin + len(top.bracket)))
            if not top.bracket:
                fail("RG0724", f"`{word}` closes no bracket", here)
            if word != _CLOSING[top.bracket]:
                opened = place(top.begin, top.begin + 1).span
                message = f"`{word}` closes the `{top.bracket}` of line {opened.line}, column {opened.column}"
                fail("RG0724", message, here, f"Write `{_CLOSING[top.bracket]}`.")
            if top.dot is not None and top.tail is None:
                fail("RG0724", "nothing stands behind the dot", top.dot)
            stack.pop()
            add(Items(tuple(top.items), place(top.begin, token.end), top.tail))
        elif word == ".":
            here = place(begin, token.end)
            if not stack[-1].items or stack[-1].dot is not None:
                fail("RG0724", "a dot stands behind the items of a list", here)
            stack[-1].dot = here
        else:
            add(_atom(word, place(begin, token.end)))
    top = stack[-1]
    if top.bracket:
        here = place(top.begin, top.begin + len(top.bracket))
        if top.bracket in _PREFIXES:
            fail("RG0724", _PREFIXES[top.bracket], here)
        fail("RG0724", f"this `{top.bracket}` is not closed", here, f"Write `{_CLOSING[top.bracket]}` behind its list.")
    return stack[0].items


def _atom(text: str, at: Place) -> Datum:
    if text in ("#t", "#f", "#true", "#false"):
        return Literal(text.startswith("#t"), at)
    whole = _WHOLE.fullmatch(text)
    if _NUMBER.fullmatch(text) or whole:
        if whole:
            written = next((digits, base) for digits, base in zip(whole.groups(), _BASES, strict=True) if digits)
            # Longer ones are beyond all formats.
            value = float(int(*written)) if len(text) < 200 else math.inf
        else:
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
