"""Janus of 1982: its spellings, its integers as conditions, its global variables."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.parser import read
from retrograd.compiler.frontends.janus.syntax import inverted, program_text
from retrograd.isa.diagnostics import CompileError, InputError
from retrograd.isa.words import Format

from retrograd.cli.main import main
from retrograd.runtime._reversible import JanusFunction, run

PROGRAM = r"""x y z a[3]        ; globals
PROCEDURE f
  x += 7 */ 1073741824   ; 7 / 2
  y += (x = 3) + (x # 9) + (x < 4 & x > 2) + (5 ! 4)
  if x then z != 5 else z += 1 fi x
  if ~x & 0 else z += -1 fi 0
  a[z \ 3] += 4
  x : y
  write x
procedure f'  CALL f
procedure main call f' uncall f'  call f
"""


def test_spellings_and_integers_as_conditions(capsys: pytest.CaptureFixture[str]) -> None:
    tree = read(PROGRAM, "p.janus", "1982")
    found = run(JanusFunction(tree, "main"))
    assert found.values._asdict() | {"a": found.values.a.tolist()} == {"x": 4, "y": 3, "z": 4, "a": [0, 4, 0]}
    assert capsys.readouterr().out == "x = 4\n" * 3
    machine = found.machine
    machine.turn()
    machine.run()
    assert not any(machine.memory)
    assert read(program_text(tree), "q", "1982") == tree
    assert inverted(inverted(tree)) == tree
    assert read(program_text(inverted(tree)), "q", "1982") == inverted(tree)


@pytest.mark.parametrize("width", [32, 64])
def test_fractional_product(width: int) -> None:
    f = JanusFunction(read("x y z procedure f z += x */ y", "t", "1982"), "f", Format(width, 0))
    top = 1 << width - 1
    draw = random.Random(width)
    edges = [0, 1, -1, top - 1, -top, 3, 1 << width // 2]
    pairs = [(x, y) for x in edges for y in edges]
    pairs += [(draw.randrange(-top, top), draw.randrange(-top, top)) for _ in range(150)]
    for x, y in pairs:
        assert run(f, x, y, 0, engine="native").values.z == ((x * y >> width - 1) + top) % (2 * top) - top, (x, y)


def test_globals_are_passed_to_the_procedures_that_use_them() -> None:
    tree = read("x y procedure f x += 1 procedure g call f procedure h y += 1", "t", "1982")
    assert [[p.name for p in procedure.parameters] for procedure in tree.procedures] == [["x"], ["x"], ["y"]]


def test_the_dialect_of_a_file() -> None:
    assert read("x procedure main x += 1", "a.janus").dialect == "1982"
    assert read("procedure main() int x x += 1", "a.janus").dialect == "jana"
    assert read("procedure main() int x x += 1", "a.ja").dialect == "jana"
    with pytest.raises(CompileError, match="RG0725"):
        read("x procedure main x += 1", "a.ja")
    assert read("x procedure main x += 1", "a.ja", "1982").dialect == "1982"


def test_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.txt.ja"
    file.write_text("x procedure main x += 1 procedure other x += 2")
    assert main(["run", str(file), "--dialect", "1982", "--entry", "other"]) == 0
    assert "x = 2" in capsys.readouterr().out
    assert main(["run", f"{file}:other", "--dialect", "1982", "--backward", "x=2"]) == 0
    assert "x = 0" in capsys.readouterr().out
    assert main(["run", f"{file}:other", "--dialect", "1982", "--entry", "main"]) == 2
    assert "RG0512" in capsys.readouterr().err


@pytest.mark.parametrize("dialect", ["x", "", 1982])
def test_a_dialect_that_there_is_not(dialect: Any) -> None:
    with pytest.raises(InputError, match=r"(?s)RG0603.*dialects: jana, 1982"):
        read("procedure main()\n int x\n x += 1\n", "x.ja", dialect)


#: operator -> its spelling in the dialect of 1982
OPERATORS = {
    o: o
    for o in ("**", "*", "/", "%", "+", "-", "<<", ">>", "<=", "<", ">=", ">", "=", "!=", "&", "|", "^", "&&", "||")
}
SPELLINGS = [*OPERATORS.items(), ("%", "\\"), ("!=", "#"), ("^", "!")]


@pytest.mark.parametrize(("jana", "own"), SPELLINGS, ids=str)
def test_every_operator_is_that_of_jana(jana: str, own: str) -> None:
    """With and without blanks around it; a condition as the page has it: 1 or 0."""
    condition = jana in ("<=", "<", ">=", ">", "=", "!=", "&&", "||")
    one, two = ("x != 0", "y != 0") if jana in ("&&", "||") else ("x", "y")
    statement = f"if {one} {jana} {two} then z += 1 fi {one} {jana} {two}" if condition else f"z += x {jana} y"
    expected = JanusFunction(read(f"procedure f(int x, int y, int z) {statement}", "t"), "f")
    for space in ("", " "):
        found = JanusFunction(read(f"x y z procedure f z += x{space}{own}{space}y", "t", "1982"), "f")
        for x, y in ((7, 2), (-7, 3), (5, 5), (1, 1), (0, 4), (-1, 1)):
            assert run(found, x, y, 0).values == run(expected, x, y, 0).values, (x, y)
        assert read(program_text(found.entry.program), "t", "1982") == found.entry.program


@pytest.mark.parametrize("operator", OPERATORS)
def test_precedences_are_those_of_jana(operator: str) -> None:
    """Beside each other operator, and itself."""
    for other in OPERATORS:
        for text in (f"x {operator} y {other} 3", f"x {other} y {operator} 3"):
            (statement,) = read(f"procedure f(int x, int y, int z) z += {text}", "t").procedures[0].body
            (own,) = _statements(f"x y z procedure f z += {text}")
            assert shape(own.value) == shape(statement.value), text


def _statements(text: str) -> Any:
    return read(text, "t", "1982").procedures[0].body


def shape(e: Any) -> Any:
    """Operators and operands, without the marks of conditions as numbers."""
    match e:
        case syntax.Indicator(condition=condition):
            return shape(condition)
        case syntax.Binary(operator="!=", left=x, right=syntax.Number(value=0)):
            return shape(x)
        case syntax.Binary(operator=op, left=x, right=y):
            return shape(x), op, shape(y)
        case syntax.Number(value=value):
            return value
    return e.name
