"""`retrograd debug`: a program in a debugger that goes both ways, at a prompt or by a script.

`interpreter.py` has the commands, as text in and text out. The session does the work.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from retrograd.cli.commands.debugging.interpreter import Interpreter, Prompt
from retrograd.cli.commands.debugging.opening import opened_session
from retrograd.cli.exit_codes import BAD_INPUT, OK
from retrograd.cli.files import read_bytes
from retrograd.cli.options import Parser
from retrograd.cli.report import show_errors
from retrograd.isa.diagnostics import RetrogradError
from retrograd.simulator.energy.pricing import pricing_context


def arguments(p: Parser) -> None:
    """Options of `retrograd debug`."""
    p.program_argument(" or FILE.py:FUNCTION, FILE.ja[:PROCEDURE], FILE.vlad")
    p.function_arguments()
    p.run_options(
        "--engine", "--format", "--dialect", "--entry", "--set", "--mem", "--backward", "--inverse", "--memory", "--memory-limit",
        "--no-overflow", "--strict",
    )  # fmt: skip
    p.add_argument("-x", "--execute", metavar="FILE", dest="script", help="run the commands of a file, then end")
    p.loss_option("of a function: run it, and debug its way back with cotangents, from this argument's final value")
    p.add_argument(
        "--tech", metavar="MODEL", default="landauer", help="technology model of `counts` (default: landauer)"
    )
    p.add_argument("--resume", metavar="STATE", help="of a program: begin in a state that --save wrote")
    p.add_argument("--expression", metavar="N", help="of a file of VLAD: its N-th expression (default: 1)")
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Open a session and carry out its commands."""
    session = opened_session(options)
    interpreter = Interpreter(session, pricing_context(options.tech, session.machine.format))
    if options.script is None and sys.stdin is not None and sys.stdin.isatty():
        Prompt(interpreter).cmdloop()
        return OK
    return run_script(interpreter, _lines(options.script or "-"))


def _lines(path: str) -> Iterator[str]:
    return iter(read_bytes(path).decode(errors="replace").splitlines())


def run_script(interpreter: Interpreter, lines: Iterator[str]) -> int:
    """Carry out commands until `quit` or the first error, which ends the script with exit code 2."""
    for line in lines:
        try:
            if interpreter.execute(line):
                break
        except RetrogradError as error:
            return show_errors(error, as_json=False) or BAD_INPUT
    return OK
