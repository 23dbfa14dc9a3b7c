"""`retrograd trace`: a recorded run for other tools: GTKWave, Surfer, Konata, Perfetto, programs."""

from __future__ import annotations

import argparse

from retrograd.cli.commands.debugging.recorded import concluded, recorded, recording_options
from retrograd.cli.options import Parser
from retrograd.isa.files import check_output


def arguments(p: Parser) -> None:
    """Options of `retrograd trace`."""
    p.add_argument(
        "-o", dest="written", metavar="FILE", required=True,
        help="the trace; its suffix stands for its format: .vcd, .kanata, .pftrace (Perfetto), .json",
    )  # fmt: skip
    p.add_argument("--to", choices=("vcd", "kanata", "perfetto", "json"), help="the format, whatever the suffix")
    recording_options(p)


def execute(options: argparse.Namespace) -> int:
    """Record a run and write it."""
    from retrograd.observe._explorer import format_of_file

    check_output(options.written)
    format = options.to or format_of_file(options.written)
    found = recorded(options)
    found.save(options.written, format)
    return concluded(found, options, f"{options.written}: {len(found.recording.steps)} steps as {format}")
