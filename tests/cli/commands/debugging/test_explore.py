"""`retrograd explore`: pages of programs and functions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from retrograd.examples import bessel

from retrograd.cli.main import main
from retrograd.cli.terminal import LIMIT, OK
from retrograd.observe import _timeline
from tests.debugger.test_session import SUM

BESSEL = f"{bessel.__file__}:bessel"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sum.rga").write_text(SUM)


def test_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "sum.rga", "--set", "n=3", "-o", "sum.html"]) == 0
    assert capsys.readouterr().out.startswith("sum.html: 31 steps, ")
    assert "<title>sum.rga</title>" in Path("sum.html").read_text("utf-8")
    assert main(["explore", "sum.rga", "--set", "n=3", "--from", "20", "--steps", "5", "-o", "sum.html"]) == 0
    assert '"first":20,' in Path("sum.html").read_text("utf-8")
    assert main(["explore", BESSEL, "0.0", "2.5", "--loss", "out", "--tech", "cmos45", "-o", "b.html"]) == 0
    assert "<title>grad(bessel)</title>" in Path("b.html").read_text("utf-8")
    assert main(["explore", BESSEL, "0.0", "2.5", "--backward", "-o", "b.html"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["sum.rga", "-o", "sum.rga"], "RG05"),
        (["sum.rga", "-o", "no/such/folder.html"], "RG05"),
        (["none.rga", "-o", "p.html"], "RG0501"),
        (["sum.rga", "-o", "p.html", "--loss", "n"], "RG0512"),
        (["sum.rga", "-o", "p.html", "--steps", "0"], "RG0507"),
        (["sum.rga", "-o", "p.html", "--from", "-1"], "RG0507"),
        (["sum.rga", "-o", "p.html", "--tech", "steam"], "RG11"),
        ([BESSEL, "0.0", "2.5", "-o", "p.html", "--loss", "nu"], "RG06"),
        ([BESSEL, "0.0", "2.5", "-o", "p.html", "--loss", "out", "--from", "2"], "RG0510"),
        ([BESSEL, "0.0", "-o", "p.html"], "RG06"),
    ],
)
def test_wrong_input(arguments: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", *arguments]) == 2
    assert f"error[{code}" in capsys.readouterr().err
    assert not Path("p.html").exists()
    assert Path("sum.rga").read_text() == SUM


def recorded_steps(*arguments: str) -> tuple[int, list[int]]:
    """(the exit code, the addresses of the steps)"""
    code = main(["trace", "sum.rga", "--set", "n=3", "-o", "part.json", *arguments])
    return code, json.loads(Path("part.json").read_text())["steps"]["pc"][:-1]


@pytest.mark.parametrize("command", ["explore", "trace"])
def test_a_run_that_goes_on_is_told_with_the_way_to_the_rest(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options that the line names record the rest. A recording of a number of steps that the command names is whole."""
    _, whole = recorded_steps()
    monkeypatch.setattr(_timeline, "STEPS", 12)
    capsys.readouterr()
    found: list[int] = []
    code = LIMIT
    while code == LIMIT:
        begin = ["--from", str(len(found))]
        code, steps = recorded_steps(*begin)
        found += steps
        assert main([command, "sum.rga", "--set", "n=3", "-o", "p.json", *begin]) == code
        told = capsys.readouterr().out.splitlines()[-1]
        rest = f"; the run goes on: --steps N records more, --from {len(found)} the following ones"
        assert told.endswith(rest) == (code == LIMIT)
        assert ("goes on" in told) == (code == LIMIT)
    assert (code, found) == (OK, whole)
    assert recorded_steps("--steps", "12") == (OK, whole[:12])
    assert "the run goes on" in capsys.readouterr().out
    assert recorded_steps("--steps", str(len(whole))) == (OK, whole)
    assert "goes on" not in capsys.readouterr().out


def test_a_gradient_that_goes_on_and_a_trap(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recording of a gradient begins at the beginning, so `--from` is not named."""
    monkeypatch.setattr(_timeline, "STEPS", 12)
    assert main(["trace", BESSEL, "0.0", "2.5", "--loss", "out", "-o", "b.json"]) == LIMIT
    assert capsys.readouterr().out == "b.json: 12 steps as json; the run goes on: --steps N records more\n"
    assert main(["trace", BESSEL, "0.0", "2.5", "--loss", "out", "--steps", "9999", "-o", "b.json"]) == OK
    Path("trap.rga").write_text("start\n add r1, 1\n assertz r1\n finish\n")
    capsys.readouterr()
    assert main(["trace", "trap.rga", "-o", "t.json"]) == OK
    assert capsys.readouterr().out == "t.json: 2 steps as json; the run traps there: RG0407\n"


# ---------------------------------------------------------------------- traces


def test_traces(capsys: pytest.CaptureFixture[str]) -> None:
    for name, format in [("t.vcd", "vcd"), ("t.kanata", "kanata"), ("t.pftrace", "perfetto"), ("t.json", "json")]:
        assert main(["trace", "sum.rga", "--set", "n=3", "-o", name]) == 0
        assert capsys.readouterr().out == f"{name}: 31 steps as {format}\n"
    assert main(["trace", BESSEL, "0.0", "2.5", "--loss", "out", "--to", "vcd", "-o", "b.json"]) == 0
    assert Path("b.json").read_text("utf-8").startswith("$comment")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["-o", "t.png"], "RG0507"), (["-o", "sum.rga", "--to", "vcd"], "RG05"), (["-o", "t.vcd", "x"], "RG0510")],
)
def test_wrong_traces(arguments: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "sum.rga", *arguments]) == 2
    assert f"error[{code}" in capsys.readouterr().err
    assert Path("sum.rga").read_text() == SUM
