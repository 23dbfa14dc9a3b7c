"""Usage: help without arguments, the nearest name for a misspelt name, and the usage of the command that failed."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograd.cli.commands.shell import grammar
from retrograd.cli.main import main, parser

Cli = Callable[..., tuple[int, str, str]]
OK, BAD_INPUT = 0, 2
ALL = list(grammar(parser()).all())


@pytest.mark.parametrize("path", [(), ("hdl",)])
def test_a_group_without_a_command_shows_its_help(cli: Cli, path: tuple[str, ...]) -> None:
    code, out, err = cli(*path)
    assert (code, err) == (OK, "")
    assert (code, out, err) == cli(*path, "--help")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rnu", "x"), "retrograd: error: argument COMMAND: no command is named `rnu`; did you mean `run`?"),
        (("hdl", "verilo"), "retrograd hdl: error: argument COMMAND: no command is named `verilo`; did you mean `verilog`?"),
        (("zzz",), "retrograd: error: argument COMMAND: no command is named `zzz`; `retrograd --help` lists the commands"),
        (("run", "x", "--bakward"), "retrograd run: error: unrecognized arguments: --bakward; did you mean `--backward`?"),
        (("run", "x", "--engines=native"), "did you mean `--engine`?"),
        (("hdl", "run", "x", "--verilatr"), "retrograd hdl run: error: unrecognized arguments: --verilatr; did you mean"),
        (("completion", "fihs"), "`fihs` is none of bash, zsh, fish; did you mean `fish`?"),
        (("verify", "x", "--color", "alway"), "`alway` is none of auto, always, never; did you mean `always`?"),
        (("isa", "mul", "add"), "retrograd isa: error: unrecognized arguments: add\n"),
        (("\x1b[31m",), "no command is named `\\x1b[31m`"),
    ],
)  # fmt: skip
def test_the_nearest_name(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = cli(*arguments)
    assert (code, out) == (BAD_INPUT, "")
    assert message in err


def test_every_command_fails_with_its_own_usage(cli: Cli) -> None:
    """An unknown option behind the needed arguments: the usage is that of the command, not of `retrograd`."""
    for command in ALL[1:]:
        if command.commands:
            continue
        needed = [a.choices[0] if a.choices else "1" for a in command.arguments if a.needed]
        options = [w for o in command.options if o.needed for w in (o.names[-1], "x")]
        code, out, err = cli(*command.path[1:], *needed, *options, "--no-such-option")
        assert (code, out) == (BAD_INPUT, ""), command.path
        assert err.startswith(f"usage: {' '.join(command.path)} "), command.path
        assert "unrecognized arguments: --no-such-option" in err, command.path


@given(st.sampled_from([c.path[1] for c in ALL if len(c.path) == 2 and len(c.name) > 4]), st.data())
def test_a_command_with_a_letter_dropped_is_found(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    err = io.StringIO()
    with redirect_stderr(err), pytest.raises(SystemExit) as stopped:
        main([name[:at] + name[at + 1 :]])
    assert stopped.value.code == BAD_INPUT
    assert f"did you mean `{name}`?" in err.getvalue()
