"""`python -m retrograd.isa.manual DOCS_DIR`: write isa.md and timing.md, or check that they are fresh."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from retrograd.isa.manual.description import page
from retrograd.isa.manual.pages import manual, publish


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the manual and the page on cycles, or check that they are fresh."""
    parser = argparse.ArgumentParser(prog="python -m retrograd.isa.manual", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    parser.add_argument("docs", type=Path, metavar="DOCS_DIR")
    options = parser.parse_args(arguments)
    return publish(parser.prog, options.docs, {"isa.md": manual(), "timing.md": page()}, options.check)


if __name__ == "__main__":
    sys.exit(main())
