"""`retrograd ranges`: the magnitudes of the numbers of a function, and the formats that hold them."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from retrograd.cli.exit_codes import OK
from retrograd.cli.functions import function_and_inverse
from retrograd.cli.options import Parser, refuse_options_of_programs, step_limit
from retrograd.cli.report import print_json, print_trap

if TYPE_CHECKING:
    from retrograd.observe._ranges import ErrorBound


def arguments(p: Parser) -> None:
    """Options of `retrograd ranges`."""
    p.add_argument("program", metavar="FILE.py:FUNCTION", help="the function, or ~FUNCTION for its inverse")
    p.function_arguments()
    p.run_options("--format", "--max-steps")
    p.loss_option("go on, back with cotangents, from this argument's final value, and bound its rounding error")
    p.json_option("retrograd.ranges/1")
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Run the function, and show the ranges."""
    from retrograd.cli.arguments import argument_named, parse_arguments
    from retrograd.derivatives import grad
    from retrograd.observe._ranges import error_bound, ranges
    from retrograd.runtime._execution import ProgramTrap

    refuse_options_of_programs(options)
    function, inverse = function_and_inverse(options.program, options)
    f = ~function if inverse else function
    measured = f if options.loss is None else grad(f, None, argument_named(options.loss))
    args, keywords = parse_arguments(options.args, function)
    try:
        limit, w = step_limit(options), function.format_for()
        found = ranges(measured, *args, max_steps=limit, format=w, **keywords)
        error = None
        if options.loss is not None:
            error = error_bound(
                f, *args, loss=argument_named(options.loss), format=found.format, max_steps=limit, **keywords
            )
    except ProgramTrap as trap:
        return print_trap(trap, as_json=options.json)
    if options.json:
        print_json("retrograd.ranges/1", replace(found, function=function.__name__).as_dict() | _bound(error))
    else:
        print(found if error is None else f"{found}\n{error}")
    return OK


def _bound(error: ErrorBound | None) -> dict[str, Any]:
    return {} if error is None else {"error_bound": error.as_dict()}
