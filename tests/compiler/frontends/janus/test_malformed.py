"""Malformed texts end in errors of ours, with places in the text; programs of any size within the limits."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from retrograd.compiler.frontends.janus.parser import read
from retrograd.compiler.frontends.text import SourceText
from retrograd.isa.diagnostics import CompileError

from retrograd.runtime._reversible import JanusFunction

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "programs.json").read_text())
#: pieces that mutations insert
PIECES = (
    "procedure", "if", "then", "else", "fi", "from", "do", "loop", "until", "iterate", "by", "to", "end", "local", "delocal", "call",
    "uncall", "push", "pop", "print", "printf", "show", "assert", "error", "constant", "ancilla", "size", "top", "empty", "nil",
    "true", "external", "int", "bool", "stack", "u8", "i64", "main", "x", "0", "-1", "99999999999999999999999", "0x", '"', '"a"',
    "(", ")", "[", "]", "{", "}", ",", "+=", "^=", "<=>", "=", "!=", "**", "&&", "!", "~", "/", "%", "//", "/*", "*/", ";", ":", "#",
    "\\", "\0", "\x85", "\u2028", "é", "٣", "\t", "\n", " ",
)  # fmt: skip


def mutated(draw: random.Random) -> tuple[str, str]:
    """(a text, its dialect): a program of the tests with a few of its tokens lost, doubled, exchanged or new."""
    case = draw.choice(CASES)
    tokens = re.findall(r"\w+|\s+|.", case["text"], flags=re.DOTALL)
    for _ in range(draw.choice([1, 1, 2, 3, 8])):
        k = draw.randrange(len(tokens))
        match draw.randrange(5):
            case 0:
                del tokens[k]
            case 1:
                tokens.insert(k, tokens[draw.randrange(len(tokens))])
            case 2:
                other = draw.randrange(len(tokens))
                tokens[k], tokens[other] = tokens[other], tokens[k]
            case 3:
                tokens.insert(k, draw.choice(PIECES))
            case 4:
                tokens[k] = draw.choice(PIECES)
        tokens = tokens or [" "]
    return "".join(tokens), case.get("dialect", "jana")


def check(text: str, dialect: str) -> bool:
    """Whether the text is refused. Compiles a program that is not."""
    error: CompileError | None = None
    try:
        tree = read(text, "text", dialect)
        for procedure in tree.procedures[-2:]:
            f = JanusFunction(tree, procedure.name)
            if not f.entry.procedure.parameters:
                f.compiled()
    except CompileError as found:
        error = found
    if error is None:
        return False
    lines = SourceText("text", text).lines
    assert len(error.diagnostics) <= 20
    for d in error.diagnostics:
        assert d.render()
        if d.span is not None:
            assert 1 <= d.span.line <= len(lines) + 1
            assert d.line is None or d.span.line > len(lines) or d.line == lines[d.span.line - 1]
    return True


@pytest.mark.filterwarnings("ignore:.*no procedure")
def test_malformed_texts() -> None:
    draw = random.Random(1)
    refused = sum(check(*mutated(draw)) for _ in range(250))
    assert refused > 150


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*no procedure")
@pytest.mark.parametrize("seed", range(100))
def test_many_malformed_texts(seed: int) -> None:
    draw = random.Random(1000 + seed)
    for _ in range(1000):
        check(*mutated(draw))


@pytest.mark.parametrize(
    "text",
    [
        "procedure main() int x x += " + "(" * 5000 + "1" + ")" * 5000,
        "procedure main() int x x += " + "!" * 5000 + "x",
        "procedure main() int x x += " + "(u8)" * 5000 + "x",
        "procedure main() int x " + "if x = 0 then " * 5000,
        "procedure main() int x[" + "x[" * 5000,
        "procedure main() int x = " + "{" * 5000,
        "procedure main() int x skip " + "constant int y = 1 " * 5000,
        "procedure main() int x " + "local int y = 1 " * 5000,
    ],
)
def test_texts_nested_too_deep(text: str) -> None:
    with pytest.raises(CompileError, match="nested too deep"):
        read(text, "deep")


@pytest.mark.long
def test_long_texts() -> None:
    """A sum of many terms is no nesting; a procedure of many statements neither."""
    terms = " + ".join("x" for _ in range(3000))
    text = f"procedure main() int x int y y += {terms} " + "y += x " * 3000
    JanusFunction(read(text, "long"), "main").compiled()
    text = f"struct s {{ int x }} procedure main() struct s p int y y += {terms.replace('x', 'p.x')}"
    JanusFunction(read(text, "structs"), "main").compiled()
    with pytest.raises(CompileError, match="RG0720"):
        JanusFunction(
            read(f"procedure main() int x int y y += {' + '.join('x' for _ in range(40_000))}", "deep"), "main"
        )
    with pytest.raises(CompileError, match="more digits"):
        read("procedure main() int x x += " + "9" * 5000, "digits")


@pytest.mark.parametrize("line", ["procedure main() // \ud800", "/* \ud800é */ procedure main()"])
def test_half_a_surrogate_pair_beside_an_error(line: str) -> None:
    """Lowering shows the line of the procedure, which has no encoding in UTF-8."""
    tree = read(f"procedure bar(int a, int b)\n    a += b\n{line}\n    int x\n    call bar(x, x)\n", "text")
    with pytest.raises(CompileError):
        JanusFunction(tree, "main").compiled()


def test_several_errors_in_one_run() -> None:
    text = """procedure main()
    int x
    x += = 3
    if x = then
        x +=
    fi x = 0
    from x = 0 loop
        foo
    until x = )
    iterate int = 3 to 4
        x += 1
    end
    local int y
        y += (1
    delocal int y = 1
    call f(
procedure f(int a, int a)
    x
procedure g(
    skip
"""
    with pytest.raises(CompileError) as caught:
        read(text, "p")
    lines = [d.span.line for d in caught.value.diagnostics if d.span is not None]
    assert lines == [3, 4, 6, 9, 10, 15, 17, 19, 20]
    text = """procedure main()
    int x
    bool b
    x += b
    b += 1
    y += 1
    if x then x += 1 fi b
    x += x
    call f(b)
procedure f(int a)
    a += c
"""
    with pytest.raises(CompileError) as caught:
        JanusFunction(read(text, "p"), "main").compiled()
    assert [d.span.line for d in caught.value.diagnostics if d.span is not None] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("dialect", "head"), [("jana", "procedure main() int x int y "), ("1982", "x y procedure main ")]
)
@pytest.mark.parametrize(("foreign", "own"), [("==", "="), ("!==", "!="), ("<>", "!="), ("=<", "<="), ("=>", ">=")])
def test_an_operator_of_another_language_has_a_way_out(dialect: str, head: str, foreign: str, own: str) -> None:
    """The operator that the fix names compiles."""
    text = head + f"if x {foreign} y then y += 1 fi x {foreign} 7"
    with pytest.raises(CompileError) as refused:
        read(text, "text", dialect)
    assert refused.value.diagnostics[0].hint == f"Write `{own}` in place of `{foreign}`."
    read(text.replace(foreign, own), "text", dialect)
    with pytest.raises(CompileError) as refused:
        read(head + "x += y + = 3", "text", dialect)
    assert "in place of" not in (refused.value.diagnostics[0].hint or "")


@pytest.mark.parametrize(
    "text", ["int x = 3;", "int x x += 1;", "int x; x += 1", "int x if x = 0 then; x += 1 fi x = 1", "int x skip; skip"]
)
def test_statements_need_no_semicolon(text: str) -> None:
    with pytest.raises(CompileError) as refused:
        read(f"procedure main() {text}", "text")
    assert refused.value.diagnostics[0].hint == "A statement ends where the next one begins. Leave out the `;`."
    read(f"procedure main() {text.replace(';', '')}", "text")


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("procedure f(int x) x += 1 procedure main() int x f(x)", "`call f` calls a procedure"),
        ("procedure f(int x) int y x += 1 procedure main() int x call f(x)", "Only `main` declares variables."),
    ],
)
def test_procedures_and_declarations_of_other_languages_have_a_way_out(text: str, fix: str) -> None:
    with pytest.raises(CompileError) as refused:
        read(text, "text")
    assert (refused.value.diagnostics[0].hint or "").startswith(fix)
