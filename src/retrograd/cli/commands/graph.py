"""`retrograd graph`: control flow and mirrored code of a program as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from retrograd.cli.commands.compile import function_to_compile
from retrograd.cli.exit_codes import OK
from retrograd.cli.files import read_program
from retrograd.cli.functions import is_function
from retrograd.cli.options import Parser, fail, refuse_options_of_compiled
from retrograd.isa.diagnostics import printable
from retrograd.isa.files import check_output, write_file
from retrograd.isa.program import Program


def arguments(p: Parser) -> None:
    """Options of `retrograd graph`."""
    p.add_argument("-o", dest="picture", metavar="FILE.svg", required=True, help="the picture")
    p.program_argument(" or FILE.py:FUNCTION, FILE.ja[:PROCEDURE]")
    p.function_arguments("examples of its arguments, where annotations leave types or shapes open")
    p.add_argument("--inverse", action="store_true", help="draw the inverse program instead")
    p.compile_options()
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Draw a program."""
    from retrograd.physics._graph import graph

    if not options.picture.lower().endswith(".svg"):
        raise fail("RG0512", f"{options.picture[-40:]}: the picture is an SVG file", "write -o FILE.svg")
    check_output(options.picture)
    program = _program(options)
    name = options.program.rpartition(":")[2] if is_function(options.program) else Path(options.program).name
    write_file(options.picture, graph(program, name))
    print(f"{printable(options.picture)}: {len(program.code)} instructions")
    return OK


def _program(options: argparse.Namespace) -> Program:
    """The program in a file, or that of a function as `retrograd compile` makes it."""
    if is_function(options.program):
        function, inverse, args, keywords = function_to_compile(options)
        program = function.compiled(*args, **keywords).program
        return ~program if inverse != options.inverse else program
    refuse_options_of_compiled(options)
    program, _ = read_program(options.program, options.include)
    return ~program if options.inverse else program
