"""`retrograd explore`: pages of programs and functions."""

from __future__ import annotations

from pathlib import Path

import pytest
from retrograd.examples import bessel

from retrograd.cli.main import main
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
