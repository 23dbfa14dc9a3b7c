"""A position in the tokens of a text of Janus, with the errors found so far.

A parser that meets an error records it and goes on at the next statement, so a run reports several. Of the errors in one line only the
first is kept: the others mostly follow from it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

from retrograd.compiler.frontends.janus.syntax import Source
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span

#: blocks and expressions within each other
_DEEPEST = 100
#: errors that a run reports
_MOST = 20

T = TypeVar("T")


class Token(NamedTuple):
    """`kind`: number, name, string, sign; `open` for the begin of a comment or text without an end; `end` for the end of the file;
    empty for a character of no token.
    """

    kind: str
    text: str
    begin: int


class Cursor:
    """Reads tokens one by one. `pattern`: its groups are the kinds of tokens, and `space`; `keywords` are no names."""

    def __init__(self, text: str, name: str, pattern: re.Pattern[str], keywords: frozenset[str]) -> None:
        self.source = Source(name, text.splitlines())
        self.keywords = keywords
        self.findings: list[Diagnostic] = []
        self._text = text
        self._starts = [0, *(m.end() for m in re.finditer(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text))]
        self.tokens: list[Token] = []
        self.at = self._depth = 0
        at = 0
        while at < len(text):
            found = pattern.match(text, at)
            if found is None:
                self.tokens.append(Token("", text[at], at))
                at += 1
                continue
            if found.lastgroup != "space":
                self.tokens.append(Token(str(found.lastgroup), found[0], at))
            at = found.end()
        self.tokens.append(Token("end", "", len(text)))

    # ------------------------------------------------------------------ places

    @property
    def next(self) -> Token:
        """The token at the position."""
        return self.tokens[self.at]

    def advance(self) -> str:
        """Pass the token at the position. Returns its text."""
        token = self.next
        if token.kind != "end":
            self.at += 1
        return token.text

    def _span(self, begin: int, end: int) -> Span:
        line = bisect_right(self._starts, begin)
        start = self._starts[line - 1]
        last = self._starts[line] - 1 if line < len(self._starts) else len(self._text)
        return Span(self.source.name, line, begin - start + 1, max(min(end, last) - start + 1, begin - start + 2))

    def since(self, begin: int) -> Span:
        """The place of the text from a position to the last token."""
        last = self.tokens[max(self.at - 1, 0)]
        return self._span(begin, last.begin + len(last.text))

    # ------------------------------------------------------------------ errors

    def error(self, message: str, span: Span, hint: str | None = None) -> CompileError:
        """The error RG0725 at a place."""
        lines = self.source.lines
        line = lines[span.line - 1] if span.line <= len(lines) else ""
        return CompileError(Diagnostic("RG0725", message, span, hint, line))

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise CompileError RG0725 at the next token."""
        token = self.next
        if token.kind == "open":
            kind, end = ("comment", "*/") if token.text == "/*" else ("text", '"')
            message, hint = f"the {kind} has no end", f"A {kind} ends with `{end}`."
        elif token.text == ";":
            hint = "A statement ends where the next one begins. Leave out the `;`."
        begin = token.begin
        if token.kind == "end" and self.at:
            # The place where something is missing is behind the last token.
            begin = self.tokens[self.at - 1].begin + len(self.tokens[self.at - 1].text)
        raise self.error(message, self._span(begin, begin + len(token.text)), hint)

    def record(self, error: CompileError) -> None:
        """Keep an error. Raises CompileError with all errors where there are too many."""
        for found in error.diagnostics:
            lines = {d.span.line for d in self.findings if d.span is not None}
            if found.span is None or found.span.line not in lines:
                self.findings.append(found)
        if len(self.findings) >= _MOST:
            self.finish()

    def finish(self) -> None:
        """Raise CompileError where errors were found."""
        if self.findings:
            raise CompileError(*self.findings)

    def found(self) -> str:
        """The next token, in words."""
        return "the end of the file" if self.next.kind == "end" else f"`{self.next.text}`"

    # ------------------------------------------------------------------ tokens

    def sees(self, *texts: str) -> bool:
        """Whether the next token is one of these."""
        return self.next.kind in ("sign", "name") and self.next.text in texts

    def take(self, *texts: str) -> str | None:
        """Pass the next token, if it is one of these."""
        return self.advance() if self.sees(*texts) else None

    def need(self, *texts: str, hint: str | None = None) -> str:
        """Pass the next token, which must be one of these."""
        found = self.take(*texts)
        if found is None:
            *others, last = (f"`{t}`" for t in texts)
            wanted = f"{', '.join(others)} or {last}" if others else last
            self.fail(f"{self.found()} stands where {wanted} is expected", hint)
        return found

    def name(self, kind: str) -> str:
        """Pass a name, which is no keyword. `kind`: its kind, for the error."""
        token = self.next
        if token.kind != "name" or token.text in self.keywords:
            self.fail(f"{self.found()} stands where {kind} is expected")
        return self.advance()

    def listed(self, item: Callable[[], T], end: str) -> tuple[T, ...]:
        """Items with commas between them, up to a bracket."""
        out: list[T] = []
        if self.take(end):
            return ()
        while True:
            out.append(item())
            if self.need(",", end) == end:
                return tuple(out)

    def deeper(self, parse: Callable[[], T]) -> T:
        """The result of a parser of a nested part. Raises CompileError where parts are nested too deep."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self._depth -= 1
            self.fail("the program is nested too deep")
        try:
            return parse()
        finally:
            self._depth -= 1
