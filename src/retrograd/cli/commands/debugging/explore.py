"""`retrograd explore`: a page that shows a run step by step, forward and back."""

from __future__ import annotations

import argparse

from retrograd.cli.commands.debugging.recorded import concluded, recorded, recording_options
from retrograd.cli.options import Parser
from retrograd.isa.files import check_output


def arguments(p: Parser) -> None:
    """Options of `retrograd explore`."""
    p.add_argument(
        "-o", dest="page", metavar="PAGE.html", required=True, help="the page: one file, which needs no network"
    )
    recording_options(p)


def execute(options: argparse.Namespace) -> int:
    """Record a run and write its page."""
    check_output(options.page)
    found = recorded(options)
    found.save(options.page, "html")
    count = len(found.recording.steps)
    line = f"{options.page}: {count} steps, {len(found.html.encode()) // 1024} KiB; open it in a browser"
    return concluded(found, options, line)
