"""Colours: when they are shown, and that they change no text."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest

from retrograd.cli.main import main
from retrograd.cli.terminal import painted

Cli = Callable[..., tuple[int, str, str]]
ESCAPES = re.compile(r"\x1b\[[\d;]*m")
FAILING = [
    ("run", "wrong.rga"),
    ("run", "erase.rga", "--strict"),
    ("run", "endless.rga", "--max-steps", "9"),
    ("verify", "unreachable.rga"),
]


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize("arguments", FAILING)
def test_colors_change_no_text(cli: Cli, arguments: tuple[str, ...]) -> None:
    code, out, err = cli(*arguments, "--color", "never")
    assert "\x1b" not in err
    colored = cli(*arguments, "--color", "always")
    assert colored[:2] == (code, out)
    assert ESCAPES.sub("", colored[2]) == err
    assert re.search(r"\x1b\[1;3[13]m(error|warning)\[RG\d{4}\]:\x1b\[0m", colored[2])


@pytest.mark.parametrize(
    ("terminal", "variables", "choice", "is_colored"),
    [
        (True, {}, "auto", True), (False, {}, "auto", False),
        (True, {"NO_COLOR": "1"}, "auto", False), (True, {"NO_COLOR": ""}, "auto", True),
        (True, {"TERM": "dumb"}, "auto", False), (False, {"FORCE_COLOR": "1"}, "auto", True),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, "auto", False),
        (False, {"NO_COLOR": "1"}, "always", True), (True, {"FORCE_COLOR": "1"}, "never", False),
    ],
)  # fmt: skip
def test_when(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, terminal: bool, variables: dict[str, str], choice: str, is_colored: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert ("\x1b" in cli("run", "wrong.rga", "--color", choice)[2]) is is_colored


def test_usage_is_colored_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(SystemExit):
        main(["rnu"])
    assert "\x1b[1;31mretrograd: error:\x1b[0m argument COMMAND" in capsys.readouterr().err


def test_no_source_adds_an_escape(cli: Cli, folder: object) -> None:
    from pathlib import Path

    Path("evil.rga").write_text("start\n\x1b[2J add r1, 5\nfinish\n")
    assert "\x1b[2J" not in cli("run", "evil.rga", "--color", "always")[2]


def test_other_lines_stay_plain() -> None:
    text = "a line\n    5 | error: in a source\n  errors: 3\n | ^x"
    assert painted(text) == text
