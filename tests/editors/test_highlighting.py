"""Highlighting of assembly text: the Pygments lexer and the TextMate grammar against the tables of the assembler."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Comment, Error, Keyword, Name, Number, String
from retrograd.assembler.instructions import SUGAR
from retrograd.assembler.lexer import parts_of
from retrograd.isa.table import TABLE

from retrograd.cli.main import main
from retrograd.observe import lexers
from retrograd.observe.lexers import AssemblyLexer, vocabulary

ROOT = Path(__file__).resolve().parents[2]
TEXTS = sorted((ROOT / "examples").glob("*.rga"))
LINE = (
    "loop:  goto.lt r1, total, loop.end ; 'q' \"x\"\n .word 1.5q, 0x2a, ';', \"a;b\", r255, r256, -3e2q\n mumble r1\n"
)


def compiled_text(capsys: pytest.CaptureFixture[str]) -> str:
    """Assembly text of a compiled function, with data and labels of many kinds."""
    assert main(["compile", f"{ROOT / 'examples' / 'hypot.py'}:hypot", "--asm"]) == 0
    return capsys.readouterr().out


def test_the_vocabulary_is_that_of_the_assembler() -> None:
    words = vocabulary()
    assert {*words.instructions, *words.jumps} >= {*TABLE.by_name, *TABLE.shorthands, "goto.gt", "from.leu"}
    assert set(words.words) == set(SUGAR)
    assert {".word", ".include", ".label"} <= set(words.directives)
    assert all("target" in TABLE[name].operands for name in words.jumps if name in TABLE.by_name)


def test_pygments_finds_the_lexer() -> None:
    assert isinstance(get_lexer_by_name("rga"), AssemblyLexer)
    assert isinstance(get_lexer_for_filename("sort.rga"), AssemblyLexer)


def test_tokens_of_a_line() -> None:
    tokens = [(kind, text) for kind, text in AssemblyLexer().get_tokens(LINE) if text.strip()]
    assert tokens[:3] == [(Name.Label, "loop"), (tokens[1][0], ":"), (Keyword.Reserved, "goto.lt")]
    kinds = {text: kind for kind, text in tokens}
    assert kinds["r1"] is Name.Builtin
    assert kinds["total"] is kinds["loop.end"] is kinds["r256"] is Name
    assert kinds["; 'q' \"x\""] is Comment.Single
    assert kinds["1.5q"] is kinds["3e2q"] is Number.Float
    assert kinds["0x2a"] is Number.Integer
    assert kinds["';'"] is String.Char
    assert kinds['"a;b"'] is String.Double
    assert kinds[".word"] is Keyword.Namespace
    assert kinds["mumble"] is Error


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_examples_have_no_errors(path: Path) -> None:
    check_text(path.read_text(encoding="utf-8"))


def test_compiled_text_has_no_errors(capsys: pytest.CaptureFixture[str]) -> None:
    check_text(compiled_text(capsys))


def check_text(text: str) -> None:
    """Tokens make up the text; none is an error; the first word of each line is a keyword, in both highlighters."""
    tokens = list(AssemblyLexer(stripnl=False).get_tokens(text))
    assert "".join(part for _, part in tokens) == text
    assert [part for kind, part in tokens if kind is Error] == []
    keywords = [part for kind, part in tokens if kind in Keyword]
    expected = [word for line in text.split("\n") if (word := parts_of(line)[2])]
    assert keywords == expected
    scoped = [(part, scope) for line in text.split("\n") for part, scope in scopes(line)]
    assert [part for part, scope in scoped if re.match(r"keyword\.(control|mnemonic|other)|storage", scope)] == expected
    assert [part for part, scope in scoped if scope.startswith("invalid")] == []
    comments = [part for kind, part in tokens if kind is Comment.Single]
    assert [part for part, scope in scoped if scope.startswith("comment")] == comments
    registers = [part for kind, part in tokens if kind is Name.Builtin]
    assert [part for part, scope in scoped if "register" in scope] == registers


def scopes(line: str) -> list[tuple[str, str]]:
    """The scoped pieces of a line, by the rules of TextMate: at each place the first rule of the earliest match."""
    grammar = lexers.grammar()
    found: list[tuple[str, str]] = []

    def rules_of(patterns: list[Any]) -> list[Any]:
        return [
            r
            for p in patterns
            for r in (rules_of(grammar["repository"][p["include"][1:]]["patterns"]) if "include" in p else [p])
        ]

    rules, at = rules_of(grammar["patterns"]), 0
    while at <= len(line):
        hits = [
            (m.start(), n, m, rule)
            for n, rule in enumerate(rules)
            if (m := re.compile(rule.get("match", rule.get("begin"))).search(line, at))
        ]
        hits = [hit for hit in hits if hit[2].end() > hit[0]]
        if not hits:
            break
        _, _, match, rule = min(hits, key=lambda hit: hit[:2])
        if "name" in rule:
            found.append((match[0], rule["name"]))
        for number, capture in {**rule.get("captures", {}), **rule.get("beginCaptures", {})}.items():
            found.append((match[int(number)], capture["name"]))
        if "begin" in rule:
            assert rule["end"] == "$"
            rules = rules_of(rule["patterns"])
        at = match.end()
    return found


def test_scopes_of_a_line() -> None:
    first, second, third = map(scopes, LINE.split("\n")[:3])
    assert first[0] == ("loop", "entity.name.label.rga")
    assert ("goto.lt", "keyword.control.rga") in first
    assert ('"a;b"', "string.quoted.double.rga") in second
    assert ("';'", "constant.character.rga") in second
    assert third[0] == ("mumble", "invalid.illegal.rga")


def test_the_grammar_is_fresh() -> None:
    folder = ROOT / "editors" / "vscode" / "syntaxes"
    written = (folder / lexers.NAME_OF_FILE).read_text(encoding="utf-8")
    assert written == lexers.text(), "run python -m retrograd.observe.lexers"
    assert json.loads(written)["scopeName"] == "source.rga"
    assert lexers.main([str(folder), "--check"]) == 0


def test_a_stale_grammar_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lexers.main([str(tmp_path)]) == 0
    assert lexers.main([str(tmp_path), "--check"]) == 0
    (tmp_path / lexers.NAME_OF_FILE).write_text("{}")
    assert lexers.main([str(tmp_path), "--check"]) == 1
    assert "is stale" in capsys.readouterr().err
