"""Lines, places and tokens of a source text."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from retrograd.compiler.frontends.text import SourceText, tokens
from retrograd.isa.diagnostics import Span

_WORD = re.compile(r"\s+|(?P<word>[a-z]+)|(?P<sign>[+=])")
TEXTS = st.text("ab +=?\n\r\f\u2028", max_size=30)


@given(TEXTS)
def test_tokens_are_the_text_without_its_blanks(text: str) -> None:
    found = [*tokens(_WORD, text)]
    assert "".join(t.text for t in found) == re.sub(r"\s+", "", text)
    assert all(text[t.begin : t.end] == t.text for t in found)
    assert all((t.kind == "") == (t.text == "?") for t in found)


@given(TEXTS)
def test_a_token_lies_at_its_place(text: str) -> None:
    source = SourceText("file", text)
    for t in tokens(_WORD, text):
        span = source.span(t.begin, t.end)
        assert source.piece(span) == t.text
        assert span.line == 1 + len(re.findall(r"\r\n|\r|\n", text[: t.begin]))


@given(TEXTS, st.integers(0, 30), st.integers(0, 30))
def test_a_place_is_part_of_one_line(text: str, begin: int, length: int) -> None:
    """Also at the end of a text, and where the characters go over several lines."""
    source = SourceText("file", text)
    begin = min(begin, len(text))
    span = source.span(begin, begin + length)
    line = source.line(span)
    assert line is not None
    assert not re.search(r"[\r\n]", line)
    assert 1 <= span.column < span.end
    assert span.end <= max(len(line.rstrip()) + 1, span.column + 1)


def test_a_place_outside_has_no_line() -> None:
    found = SourceText("file", "a\nb").diagnostic("RG0725", "message", Span("file", 3))
    assert found.line is None
