"""`retrograd completion`: a script that completes commands, options and their values."""

from __future__ import annotations

import argparse
import sys

from retrograd.cli.exit_codes import OK
from retrograd.cli.grammar.bash import bash_script
from retrograd.cli.grammar.fish import fish_script
from retrograd.cli.grammar.walk import grammar
from retrograd.cli.grammar.zsh import zsh_script
from retrograd.cli.options import Parser

_SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}


def arguments(p: Parser) -> None:
    """Options of `retrograd completion`."""
    p.add_argument("shell", metavar="SHELL", choices=tuple(_SCRIPTS), help="bash, zsh or fish")


def execute(options: argparse.Namespace) -> int:
    """Print the script of one shell."""
    from retrograd.cli.main import parser

    sys.stdout.write(_SCRIPTS[options.shell](grammar(parser())))
    return OK
