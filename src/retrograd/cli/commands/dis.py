"""`retrograd dis`: a program as assembly text."""

from __future__ import annotations

import argparse
import sys

from retrograd.assembler.disassemble import disassemble
from retrograd.cli.exit_codes import OK
from retrograd.cli.files import load_program
from retrograd.cli.options import Parser, program_argument, size_options


def arguments(p: Parser) -> None:
    """Options of `retrograd dis`."""
    program_argument(p)
    p.add_argument("--addresses", action="store_true", help="add addresses and encodings as comments")
    p.add_argument("--inverse", action="store_true", help="print the inverse program")
    size_options(p)


def execute(options: argparse.Namespace) -> int:
    """Print the program, which need not pass the verifier."""
    program = load_program(options.program, options.include, check=False)
    sys.stdout.write(disassemble(~program if options.inverse else program, addresses=options.addresses))
    return OK
