"""The commands that take FILE.py:FUNCTION take FILE.ja[:PROCEDURE], too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from retrograd.compiler.compiled import Options
from retrograd.compiler.frontends.janus.parser import read

from retrograd.cli.main import main
from retrograd.observe._session import Session
from retrograd.runtime._execution import load
from retrograd.runtime._reversible import JanusFunction

FIB = """procedure fib(int x1, int x2, int n)
    if n = 0 then
        x1 += 1
        x2 += 1
    else
        n -= 1
        call fib(x1, x2, n)
        x1 += x2
        x1 <=> x2
    fi x1 = x2

procedure main()
    int x1
    int x2
    int n
    n += 4
    call fib(x1, x2, n)
"""


@pytest.fixture
def fib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fib.ja").write_text(FIB)
    return tmp_path


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    return capsys.readouterr().out


def test_run_and_energy(fib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for format in ("32,0", "64,0", "16,0"):
        found = json.loads(output(capsys, "run", "fib.ja", "--format", format, "--json"))
        assert found["values"] == {"x1": 5, "x2": 8, "n": 0}
    assert json.loads(output(capsys, "run", "fib.ja:~fib", "5", "8", "0", "--json"))["values"]["n"] == 4
    steps = json.loads(output(capsys, "run", "fib.ja", "--json"))["steps"]
    assert f" {steps} " in output(capsys, "energy", "fib.ja")


def test_compiled_programs(fib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output(capsys, "compile", "fib.ja", "-o", "fib.rgi")
    assert "x2           1  8" in output(capsys, "run", "fib.rgi")
    output(capsys, "compile", "fib.ja", "--emit", "pisa", "-o", "fib.pisa")
    assert "halted" in output(capsys, "run", "fib.pisa")
    assert "fib.ja" in output(capsys, "compile", "fib.ja", "--report")


@pytest.mark.long
def test_hardware(fib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "hdl", "run", "fib.ja").startswith("x1 = 5\nx2 = 8\nn  = 0\n")


def test_pictures_and_traces(fib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output(capsys, "trace", "fib.ja", "-o", "t.json")
    files = {step["file"] for step in json.loads((fib / "t.json").read_text())["code"]}
    assert len(files) > 1
    output(capsys, "explore", "fib.ja:fib", "0", "0", "3", "-o", "page.html")
    assert "call fib(x1, x2, n)" in (fib / "page.html").read_text()
    output(capsys, "graph", "fib.ja", "-o", "g.svg")
    assert (fib / "g.svg").read_text().startswith("<svg")


def test_debugger(fib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "break :8\ncontinue\nprint n\ncontinue\nprint x1\nreverse-continue\nprint x1\nreverse-line\ndelete 1\ncontinue\nwhy x2\n"
    (fib / "s.txt").write_text(script)
    out = output(capsys, "debug", "fib.ja", "-x", "s.txt")
    assert out.count("fib.ja:8") >= 3
    assert "x1 += x2" in out


ARRAYS = """procedure f(int q[], stack s, int x)
    local int w[2][2] = {{1, 2}, {3, 4}}
    q[1] += w[1][0]
    push(x, s)
    x += 5
    q[2] += 3
    delocal int w[2][2] = {{1, 2}, {3, 4}}

procedure main()
    int a[3]
    int x = 7
    stack t
    call f(a, t, x)
"""


@pytest.mark.parametrize("level", [0, 1])
def test_arrays_and_stacks_in_the_debugger(level: int) -> None:
    f = JanusFunction(read(ARRAYS, "arrays.ja"), "main", options=Options(level=level))
    values = [v.initial for v in f.entry.variables]
    session = Session(load(f.compiled(*values), values, engine="reference"))
    session.break_at(":5")
    assert session.resume().reason == "breakpoint"
    found = {v.name: v.value for v in session.variables()}
    assert found["a" if level else "q"] == [0, 3, 0]
    assert found["t" if level else "s"] == [7]
    # At level 1 the elements of w are constants, which have no place.
    assert found.get("w") == (None if level else [[1, 2], [3, 4]])
