"""`retrograd invert`: the inverse program of a program of Janus."""

from __future__ import annotations

import argparse
import sys

from retrograd.cli.exit_codes import OK
from retrograd.cli.files import input_path
from retrograd.cli.options import Parser, fail
from retrograd.isa.diagnostics import printable
from retrograd.isa.files import write_file


def arguments(p: Parser) -> None:
    """Options of `retrograd invert`."""
    p.add_argument("program", metavar="FILE.ja", help="a program of Janus")
    p.add_argument("-o", dest="output", metavar="OUT.ja", help="the file to write (default: standard output)")
    p.add_argument("--jana", action="store_true", help="leave the statements of `main` as they are, as `jana -i` does")
    p.run_options("--dialect")
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Print or write the inverse program."""
    if not options.program.endswith((".ja", ".janus")):
        hint = "`retrograd dis --inverse` prints the inverse of an assembly program; `FILE.py:~FUNCTION` is the inverse of a function"
        raise fail("RG0509", f"`{options.program}` is no program of Janus", hint)
    from retrograd.compiler.frontends.janus.printer import program_text
    from retrograd.compiler.frontends.janus.syntax import inverted
    from retrograd.runtime._reversible import read_janus

    text = program_text(inverted(read_janus(input_path(options.program), options.dialect), main=not options.jana))
    if options.output is None:
        sys.stdout.write(printable(text, lines=True))
    else:
        write_file(options.output, text)
    return OK
