"""`retrograd graph`: control flow and mirrored code of a program as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from retrograd.cli.exit_codes import OK
from retrograd.cli.functions import is_function
from retrograd.cli.options import Parser, fail
from retrograd.cli.programs import opened
from retrograd.isa.files import check_output, write_file


def arguments(p: Parser) -> None:
    """Options of `retrograd graph`."""
    p.add_argument("-o", dest="picture", metavar="FILE.svg", required=True, help="the picture")
    p.program_argument(" or FILE.py:FUNCTION, FILE.ja[:PROCEDURE]")
    p.function_arguments()
    p.run_options(
        "--format",
        "--dialect",
        "--entry",
        "--set",
        "--mem",
        "--backward",
        "--inverse",
        "--memory",
        "--memory-limit",
        "--no-overflow",
        "--strict",
    )
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Draw a program."""
    from retrograd.figures.graph import graph

    if not options.picture.lower().endswith(".svg"):
        raise fail("RG0512", f"{options.picture[-40:]}: the picture is an SVG file", "write -o FILE.svg")
    check_output(options.picture)
    options.engine = "reference"
    program = opened(options)[0].program
    name = options.program.rpartition(":")[2] if is_function(options.program) else Path(options.program).name
    write_file(options.picture, graph(program, name))
    print(f"{options.picture}: {len(program.code)} instructions")
    return OK
