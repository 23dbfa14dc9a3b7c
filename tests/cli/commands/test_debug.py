"""`retrograd debug` by scripts, and the options of `retrograd run` that begin or end in the middle."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrograd.cli.commands.debug.interpreter import Interpreter, Prompt
from retrograd.cli.main import main
from retrograd.debugger import Session
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
    prompt = Prompt(Interpreter(session))
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


def test_runs_from_the_middle(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    def first_line(*options: str) -> str:
        assert main(["run", program, *options]) == 0
        return capsys.readouterr().out.partition("\n")[0]

    assert first_line("--set", "n=3", "--until", "total == 5", "--save", "state").startswith("condition at pc 3")
    assert first_line("--resume", "state").startswith("halted at pc 10")
    assert first_line("--resume", "state", "--turn").startswith("halted at pc 0")
    assert main(["debug", program, "--resume", "state", "-x", script("to 0\np n\n")]) == 0
    assert "step 0, pc 0" in capsys.readouterr().out
