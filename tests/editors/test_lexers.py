"""Lexers of Janus and VLAD against the tokens of their parsers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Comment, Error, Keyword, Name, Number, String, Whitespace
from retrograd.compiler.frontends.janus.parser import JANA, JANUS_1982, Cursor
from retrograd.compiler.frontends.vlad import data
from retrograd.compiler.frontends.vlad.primitives import PRIMITIVES
from retrograd.compiler.frontends.vlad.translation import FORMS

from retrograd.observe import lexers
from retrograd.observe.lexers import AssemblyLexer, JanusLexer, VladLexer

ROOT = Path(__file__).resolve().parents[2]
JANUS = sorted((ROOT / "examples" / "janus").iterdir())
RECORDED = json.loads((ROOT / "tests" / "compiler" / "frontends" / "janus" / "programs.json").read_text("utf-8"))
VLAD = [*sorted((ROOT / "examples" / "vlad").glob("*.vlad")), ROOT / "compiler" / "frontends" / "vlad" / "prelude.vlad"]
KINDS = {"number": Number, "string": String, "name": Name}


def check_janus(text: str, dialect_1982: bool) -> None:
    """The lexer's tokens are those of the parser, of the same kind."""
    grammar = JANUS_1982 if dialect_1982 else JANA
    shown = [(kind, t) for kind, t in JanusLexer(stripnl=False, ensurenl=False).get_tokens(text)]
    assert "".join(t for _, t in shown) == text.replace("\r\n", "\n")
    kept = [(kind, t) for kind, t in shown if kind not in Whitespace and kind not in Comment]
    expected = [t for t in Cursor(text, "x", grammar).tokens if t.kind != "end"]
    assert [t for _, t in kept] == [t.text for t in expected]
    for (kind, t), token in zip(kept, expected, strict=True):
        assert kind is not Error, t
        if t.lower() in grammar.keywords and (dialect_1982 or t in grammar.keywords):
            assert kind in Keyword, t
        elif token.kind in KINDS and t not in JANA.keywords | JANUS_1982.keywords:
            assert kind in KINDS[token.kind] or t.lower() in JANUS_1982.keywords, t


@pytest.mark.parametrize("path", JANUS, ids=lambda path: path.name)
def test_janus_examples(path: Path) -> None:
    check_janus(path.read_text("utf-8"), path.suffix == ".janus")


def test_recorded_programs_have_no_error() -> None:
    texts = [value for value in strings(RECORDED) if "procedure main" in value]
    assert len(texts) > 20
    for text in texts:
        wrong = [t for kind, t in JanusLexer().get_tokens(text) if kind is Error]
        # Some of the recorded programs are wrong on purpose.
        assert len(wrong) <= text.count("'") + text.count("@") + text.count("$"), (text, wrong)


def strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in strings(item)]


@pytest.mark.parametrize("path", VLAD, ids=lambda path: path.name)
def test_vlad_examples(path: Path) -> None:
    text = path.read_text("utf-8")
    shown = list(VladLexer(stripnl=False, ensurenl=False).get_tokens(text))
    assert "".join(t for _, t in shown) == text
    kinds = {t: kind for kind, t in shown}
    assert Error not in kinds.values()
    expected = [m[0] for m in data.TOKEN.finditer(text) if m["atom"]] if "#|" not in text else []
    atoms = [t for kind, t in shown if kind not in Comment and not t.isspace() and t not in "()[]'"]
    assert not expected or atoms == expected
    for t, kind in kinds.items():
        assert (kind in Keyword) == (t in FORMS or t in ("#t", "#f")), t
        assert (kind is Name.Builtin) == (t in PRIMITIVES), t


@given(st.text("ifx =+(){}[];/*\"'#|.\n\\$1", max_size=40))
def test_any_text_keeps_its_characters(text: str) -> None:
    for lexer in (JanusLexer(stripnl=False, ensurenl=False), VladLexer(stripnl=False, ensurenl=False)):
        assert "".join(t for _, t in lexer.get_tokens(text)) == text


@pytest.mark.parametrize(
    "number", ["9" * 30 + "a", "0x" + "f" * 30 + ".", "1." + "9" * 30 + "_", "1e" + "9" * 30 + "q_"]
)
def test_a_number_that_ends_wrong_is_one_token(number: str) -> None:
    """Cut after each of its digits, it would be read as often as it has digits."""
    found = list(AssemblyLexer(stripnl=False, ensurenl=False).get_tokens(f"add r1, {number} ; c"))
    assert [text for kind, text in found if number.startswith(text.strip() or " ")] == [number]
    assert number in [text for _, text in VladLexer().get_tokens(f"(+ 1 {number})")]


@pytest.mark.parametrize("pattern", [lexers.FIXED_POINT, lexers.INTEGER])
def test_digits_are_not_given_back(pattern: str) -> None:
    """Each repetition of digits is possessive."""
    assert not re.search(r"\][+*](?!\+)", pattern)


def test_pygments_finds_them() -> None:
    assert isinstance(get_lexer_by_name("janus"), JanusLexer)
    assert isinstance(get_lexer_for_filename("fib.ja"), JanusLexer)
    assert isinstance(get_lexer_by_name("vlad"), VladLexer)
    assert isinstance(get_lexer_for_filename("x.vlad"), VladLexer)
