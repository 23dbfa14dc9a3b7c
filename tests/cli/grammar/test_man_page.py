"""The manual page: every command and option is on it, and formatters accept it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import pytest

from retrograd.cli.commands.shell import Argument, Command, grammar, man_page
from retrograd.cli.main import parser

Cli = Callable[..., tuple[int, str, str]]


def test_every_option_is_on_the_page(cli: Cli) -> None:
    code, page, err = cli("man")
    assert (code, err) == (0, "")
    sections = page.split("\n.SS ")
    everything = list(grammar(parser()).all())[1:]
    assert [section.partition("\n")[0] for section in sections[1:]] == [c.key.replace("-", "\\-") for c in everything]
    for section, command in zip(sections[1:], everything, strict=True):
        for option in command.options:
            for name in option.names:
                assert f"\\fB{name.replace('-', chr(92) + '-')}\\fR" in section, (command.path, name)


def test_text_is_never_a_request() -> None:
    """A line that begins with a dot or an apostrophe, or has a backslash, is printed as it is written."""
    hard = Argument(("--x",), "V", (), ".br \\fB 'x", repeated=False, needed=False)
    page = man_page(Command(("retrograd",), ".TH of 'all'", (hard,), (), ()), {})
    assert "\n\\&.br \\efB 'x\n" in page
    if shutil.which("man") is not None:
        shown = subprocess.run(["man", "-P", "cat", "-l", "-"], input=page, capture_output=True, text=True, check=True)
        assert ".br \\fB 'x" in shown.stdout


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_groff_has_no_warning(cli: Cli) -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", "-Kutf8"], input=cli("man")[1], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
