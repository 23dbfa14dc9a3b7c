"""`retrograd man`: the manual page, for `man -l` and for packages."""

from __future__ import annotations

import argparse
import sys

from retrograd.cli.exit_codes import OK
from retrograd.cli.grammar.man_page import man_page
from retrograd.cli.grammar.walk import grammar
from retrograd.cli.options import EXIT_CODES, Parser


def arguments(p: Parser) -> None:
    """`retrograd man` has no options of its own."""


def execute(options: argparse.Namespace) -> int:
    """Print the page in the macros of man(7)."""
    from retrograd.cli.main import parser

    sys.stdout.write(man_page(grammar(parser()), EXIT_CODES))
    return OK
