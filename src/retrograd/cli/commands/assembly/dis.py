"""`retrograd dis`: a program as assembly text."""

from __future__ import annotations

import argparse
import sys

from retrograd.assembler.disassemble import disassemble
from retrograd.cli.exit_codes import OK
from retrograd.cli.files import load_program
from retrograd.cli.options import Parser


def arguments(p: Parser) -> None:
    """Options of `retrograd dis`."""
    p.program_argument()
    p.add_argument("--addresses", action="store_true", help="add addresses and encodings as comments")
    p.add_argument("--inverse", action="store_true", help="print the inverse program")
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Print the program, which need not pass the verifier."""
    program = load_program(options.program, options.include, check=False)
    sys.stdout.write(disassemble(~program if options.inverse else program, addresses=options.addresses))
    return OK
