"""`retrograd debug` by scripts, and the options of `retrograd run` that begin or end in the middle."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from retrograd.examples import bessel
from retrograd.simulator.energy.pricing import pricing_context

import retrograd as rg
from retrograd.cli.commands.debugging import Interpreter, Prompt
from retrograd.cli.main import main
from retrograd.observe import Session
from tests.debugger.test_session import SUM, session_of


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sum.rga").write_text(SUM)
    return "sum.rga"


def script(text: str) -> str:
    Path("script").write_text(text)
    return "script"


def test_a_script(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = script("b more if i == 2  # twice\nc\np i\nwatch total\nrc\ncounts\nbt\nlist\ninfo\nhelp\nq\nnonsense\n")
    assert main(["debug", program, "--set", "n=3", "-x", commands]) == 0
    out = capsys.readouterr().out
    for found in ("breakpoint 1, more", "i = 2", "watch 2 of r2", "r2: 0 → 1", "→ pc", "reverse-line"):
        assert found in out, out


def test_the_first_error_ends_a_script(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["debug", program, "-x", script("delete 4\nstep\n")]) == 2
    found = capsys.readouterr()
    assert (found.out, found.err[:14]) == ("", "error[RG1305]:")


def test_a_prompt_goes_on_after_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    session: Session = session_of(SUM, r1=3)
    prompt = Prompt(Interpreter(session, pricing_context("landauer", session.machine.format)))
    assert not prompt.onecmd("nonsense")
    assert not prompt.onecmd("step 3")
    assert not prompt.onecmd("set total = 4")
    assert prompt.completenames("rev") == [
        "reverse-step", "reverse-next", "reverse-line", "reverse-out", "reverse-continue", "reverse-until",
    ]  # fmt: skip
    assert prompt.onecmd("q")
    assert prompt.onecmd("EOF")
    assert (session.position, session.evaluate("total")) == (3, 4)
    assert "RG1305" in capsys.readouterr().err


def test_a_listing_marks_the_instruction_that_is_next(capsys: pytest.CaptureFixture[str]) -> None:
    session: Session = session_of(SUM, r1=3)
    prompt = Prompt(Interpreter(session, pricing_context("landauer", session.machine.format)))
    end, seen = len(session.machine.program.code), set()
    for command in ["step"] * 30 + ["reverse-step"] * 10:
        prompt.onecmd(command)
        capsys.readouterr()
        prompt.onecmd("list")
        found = re.findall(r"^(.) pc (\d+)", capsys.readouterr().out, re.MULTILINE)
        around = range(max(session.pc - 5, 0), min(session.pc + 6, end))
        assert found == [("→" if at == session.pc else " ", str(at)) for at in around]
        seen.add(session.pc)
    # Near both ends of the program, fewer instructions are listed.
    assert min(seen) < 5
    assert max(seen) > end - 6


def test_runs_from_the_middle(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    def first_line(*options: str) -> str:
        assert main(["run", program, *options]) == 0
        return capsys.readouterr().out.partition("\n")[0]

    assert first_line("--set", "n=3", "--until", "total == 5", "--save", "state").startswith("condition at pc 3")
    assert first_line("--resume", "state").startswith("halted at pc 10")
    assert first_line("--resume", "state", "--turn").startswith("halted at pc 0")
    assert main(["debug", program, "--resume", "state", "-x", script("to 0\np n\n")]) == 0
    assert "step 0, pc 0" in capsys.readouterr().out


BESSEL = f"{bessel.__file__}:bessel"


def test_the_way_back_with_cotangents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "break :57 if cotangent(total) != 0\nc\np cotangent(total)\np cotangent(z)\ninfo\nc\nc\ndelete 1\nc\np cotangent(z)\ncounts\nrc\n"
    assert main(["debug", BESSEL, "0.0", "2.5", "--loss", "out", "--tech", "cmos45", "-x", script(text)]) == 0
    out = capsys.readouterr().out
    assert "cotangent(total) = 1\n" in out
    gradient = rg.grad(bessel.bessel, loss="out", scale=0)(0.0, 2.5).z
    assert f"cotangent(z) = {gradient:.10g}" in out
    assert re.search(r"variable +value +cotangent +kind", out)
    assert re.search(r"\d+ steps, 1344 bits erased, \d+ cycles, [\d.]+ nJ by cmos45", out)
    assert re.search(r"bessel.py:61 +\d+ +0 +\d+ +[\d.]+ nJ", out)


@pytest.mark.parametrize(
    ("arguments", "commands", "code"),
    [
        (["sum.rga", "--loss", "n"], "", "RG0512"),
        (["sum.rga"], "why", "RG1305"),
        (["sum.rga"], "set", "RG1305"),
        (["sum.rga"], "turn 3", "RG1305"),
        (["sum.rga"], "info r1", "RG1305"),
        ([BESSEL, "0.0", "2.5", "--loss", "nu"], "", "RG0603"),
        ([BESSEL, "0.0", "2.5", "--tech", "steam"], "", "RG1101"),
        ([BESSEL, "0.0", "2.5"], "print cotangent(z)", "RG1301"),
        ([BESSEL, "0.0", "2.5", "--loss", "out"], "print cotangent(nothing)", "RG1302"),
        ([BESSEL, "0.0", "2.5", "--loss", "out"], "print cotangent(total)", "RG1302"),
    ],
)
def test_wrong_commands(
    program: str, arguments: list[str], commands: str, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["debug", *arguments, "-x", script(commands + "\n")]) == 2
    assert f"error[{code}" in capsys.readouterr().err


VLAD = "(+ 1 2)\n(/ 1 (- 2 2))\n(let loop ((n 3)) (if (= n 0) 0 (+ n (loop (- n 1)))))\n"


def test_expressions_of_vlad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The N-th expression of a file, and an expression that traps. The way back restores the beginning."""
    monkeypatch.chdir(tmp_path)
    Path("three.vlad").write_text(VLAD)
    commands = script("continue\nprint out\nreverse-continue\nprint out\n")
    for number, value in {"1": "3", "3": "6"}.items():
        assert main(["debug", "three.vlad", "--expression", number, "-x", commands]) == 0
        out = capsys.readouterr().out
        assert re.findall(r"^out = (.*)$", out, re.MULTILINE) == [value, "0"]
        assert "the beginning of the run" in out
    assert main(["debug", "three.vlad", "--expression", "2", "-x", commands]) == 0
    assert "trap RG0402" in capsys.readouterr().out
    for wrong, code in [
        (["three.vlad", "--expression", "4"], "RG0507"), (["three.vlad", "--expression", "0"], "RG0507"),
        (["three.vlad", "5"], "RG0512"), (["three.vlad", "--loss", "x"], "RG0512"), (["three.vlad", "--set", "r1=2"], "RG0512"),
    ]:  # fmt: skip
        assert main(["debug", *wrong, "-x", commands]) == 2
        assert code in capsys.readouterr().err


def test_turn(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    """After a turn at the end a run leads to the beginning."""
    assert (
        main(["debug", program, "--set", "n=3", "-x", script("continue\nturn\ncontinue\nprint total\nprint n\n")]) == 0
    )
    out = capsys.readouterr().out
    assert "the run goes backward" in out
    assert out.endswith("total = 0\nn = 3\n")
