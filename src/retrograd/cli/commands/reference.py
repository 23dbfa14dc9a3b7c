"""`retrograd isa` and `explain`: the manual at hand, from the table and the catalogue of errors."""

from __future__ import annotations

import argparse
import json

from retrograd.assembler.subroutines import SUGAR, sugar_page
from retrograd.catalogue import catalogue
from retrograd.catalogue import explain as explained
from retrograd.cli.files import fail
from retrograd.cli.main import OK
from retrograd.isa.diagnostics import nearest
from retrograd.isa.manual import pages as manual
from retrograd.isa.table import TABLE


def isa(options: argparse.Namespace) -> int:
    """The whole table, or one instruction."""
    if options.json:
        print(json.dumps(manual.as_json(), indent=2))
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


def explain(options: argparse.Namespace) -> int:
    """One error code, or the list of them."""
    if options.code is None:
        print("\n".join(f"{kind.code}  {kind.title}" for kind in catalogue().values()))
        return OK
    try:
        print(explained(options.code.upper()))
    except KeyError:
        raise fail("RG0506", f"no error has the code `{options.code}`", nearest(options.code, catalogue())) from None
    return OK
