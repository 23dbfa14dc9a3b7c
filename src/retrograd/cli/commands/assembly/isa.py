"""`retrograd isa`: the manual of the instruction set, from the table."""

from __future__ import annotations

import argparse

from retrograd.assembler.instructions import SUGAR, sugar_page
from retrograd.cli.exit_codes import OK
from retrograd.cli.options import Parser, no_instruction
from retrograd.cli.report import print_json
from retrograd.isa.manual import pages as manual


def arguments(p: Parser) -> None:
    """Options of `retrograd isa`."""
    p.add_argument("name", metavar="OPCODE", nargs="?", help="an instruction, such as mul, mul.add or goto.lt")
    p.json_option("retrograd.isa/1")
    p.add_argument("--markdown", action="store_true", help="the manual as Markdown")


def execute(options: argparse.Namespace) -> int:
    """Print the whole table, or one instruction."""
    if options.json:
        print_json("retrograd.isa/1", manual.as_json())
    elif options.markdown:
        print(manual.manual())
    elif options.name is None:
        print(manual.summary())
    else:
        try:
            print(manual.entry_page(options.name))
        except KeyError:
            page = sugar_page(options.name)
            if page is not None:
                print(page)
                return OK
            raise no_instruction(options.name, SUGAR) from None
    return OK
