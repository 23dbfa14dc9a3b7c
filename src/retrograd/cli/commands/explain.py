"""`retrograd explain`: the catalogue of errors."""

from __future__ import annotations

import argparse

from retrograd import catalogue
from retrograd.cli.exit_codes import OK
from retrograd.cli.options import Parser, fail
from retrograd.isa.diagnostics import nearest


def arguments(p: Parser) -> None:
    """Options of `retrograd explain`."""
    p.add_argument("code", nargs="?", metavar="RG…", help="a code such as RG0108; without one, all are listed")


def execute(options: argparse.Namespace) -> int:
    """Print one error code, or the list of them."""
    kinds = catalogue.catalogue()
    if options.code is None:
        print("\n".join(f"{kind.code}  {kind.title}" for kind in kinds.values()))
        return OK
    try:
        print(catalogue.explain(options.code.upper()))
    except KeyError:
        raise fail("RG0506", f"no error has the code `{options.code}`", nearest(options.code, kinds)) from None
    return OK
