"""`retrograd isa`: the manual of the instruction set, from the table."""

from __future__ import annotations

import argparse

from retrograd.assembler.subroutines import SUGAR, sugar_page
from retrograd.cli.exit_codes import OK
from retrograd.cli.options import Parser, fail
from retrograd.cli.report import print_json
from retrograd.isa.diagnostics import nearest
from retrograd.isa.manual import pages as manual
from retrograd.isa.table import TABLE


def arguments(p: Parser) -> None:
    """Options of `retrograd isa`."""
    p.add_argument("name", nargs="?", help="an instruction, such as mul, mul.add or goto.lt")
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
            names = [*TABLE.by_name, *TABLE.shorthands, *(e.name for e in TABLE.entries), *SUGAR]
            raise fail("RG0506", f"no instruction is named `{options.name}`", nearest(options.name, names)) from None
    return OK
