"""Recorded runs of `retrograd explore` and `retrograd trace`: their options, and the recording."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from retrograd.cli.exit_codes import LIMIT, OK
from retrograd.cli.functions import is_function
from retrograd.cli.options import Parser, fail, integer
from retrograd.cli.programs import gradient_of, opened
from retrograd.isa.diagnostics import printable

if TYPE_CHECKING:
    from retrograd.observe._explorer import Exploration


def recording_options(p: Parser) -> None:
    """The options of a recorded run."""
    p.program_argument(" or FILE.py:FUNCTION, FILE.ja[:PROCEDURE]")
    p.function_arguments()
    p.add_argument(
        "--steps", metavar="N", help="steps that are recorded at most (default: 20000; a longer run has exit code 4)"
    )
    p.add_argument(
        "--from", metavar="STEP", dest="begin", default="0", help="the step that the recording begins at (default: 0)"
    )
    p.loss_option("of a function: go on, back with cotangents, from this argument's final value")
    p.add_argument(
        "--tech", metavar="MODEL", default="landauer", help="technology model of the energy (default: landauer)"
    )
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


def recorded(options: argparse.Namespace) -> Exploration:
    """The recording that the options describe. Raises InputError, and the errors of programs and functions."""
    from retrograd.observe._explorer import explore, explored
    from retrograd.observe._timeline import STEPS

    steps = STEPS if options.steps is None else integer(options.steps, "--steps", 1)
    begin = integer(options.begin, "--from", 0)
    if options.loss is not None:
        if begin:
            raise fail("RG0510", "--from and --loss: the recording of a gradient begins at the beginning")
        f, args, keywords = gradient_of(options)
        return explore(f, *args, steps=steps, tech=options.tech, **keywords)
    options.engine = "auto" if begin else "reference"
    machine, _ = opened(options)
    if begin:
        machine.run(begin)
    name = options.program.rpartition(":")[2] if is_function(options.program) else Path(options.program).name
    return explored(name, machine, steps, options.tech)


def concluded(found: Exploration, options: argparse.Namespace, line: str) -> int:
    """Print the line about a recording, and how to get the rest of a run that goes on. Returns the exit code.

    A recording that ends at a number of steps that the command names is whole.
    """
    recording, line = found.recording, printable(line)
    if recording.end == "halted":
        print(line)
        return OK
    if recording.end != "limit":
        print(f"{line}; the run traps there: {recording.end}")
        return OK
    behind = recording.first + len(recording.steps)
    further = "" if options.loss is not None else f", --from {behind} the following ones"
    print(f"{line}; the run goes on: --steps N records more{further}")
    return OK if options.steps is not None else LIMIT
