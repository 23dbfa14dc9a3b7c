"""`python -m retrograd.benchmarks.reporting DOCS`: write the page and its pictures from the kept figures, or check the page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from retrograd.benchmarks.papers import measured as papers
from retrograd.benchmarks.papers.page import PAGE, STORE
from retrograd.benchmarks.papers.page import page as tables_page
from retrograd.benchmarks.papers.page import write as write_tables
from retrograd.benchmarks.reporting.check import read
from retrograd.benchmarks.reporting.report import FIGURES, page, read_gpu, write

COMMAND = "python -m retrograd.benchmarks.reporting"


def main() -> None:
    """Write the page and its pictures, or compare the page with its file."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="compare the page, write nothing")
    parser.add_argument("docs", type=Path)
    options = parser.parse_args()
    document = read(options.docs / "benchmarks" / FIGURES)
    tables = papers.read(options.docs / STORE)
    if not options.check:
        write(document, options.docs)
        write_tables(tables, options.docs)
    elif (options.docs / "benchmarks.md").read_text(encoding="utf-8") != page(document, read_gpu(options.docs)):
        sys.exit(f"{options.docs}/benchmarks.md is stale: run {COMMAND} {options.docs}")
    elif (options.docs / PAGE).read_text(encoding="utf-8") != tables_page(tables):
        sys.exit(f"{options.docs}/{PAGE} is stale: run {COMMAND} {options.docs}")


if __name__ == "__main__":
    main()
