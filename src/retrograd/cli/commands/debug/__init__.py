"""`retrograd debug`: a program in a debugger that goes both ways, at a prompt or by a script.

`interpreter.py` has the commands, as text in and text out. The session does the work.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from retrograd.cli.commands.debug.interpreter import Interpreter, Prompt
from retrograd.cli.exit_codes import BAD_INPUT, OK
from retrograd.cli.files import read_bytes
from retrograd.cli.functions import function_and_direction, is_function
from retrograd.cli.options import Parser
from retrograd.cli.programs import prepared
from retrograd.cli.report import show_errors
from retrograd.debugger.saved_state import load_state
from retrograd.debugger.session import Session
from retrograd.isa.diagnostics import RetrogradError


def arguments(p: Parser) -> None:
    """Options of `retrograd debug`."""
    p.program_argument(" or FILE.py:FUNCTION")
    p.function_arguments()
    p.run_options(
        "--engine", "--format", "--set", "--mem", "--backward", "--inverse", "--memory", "--memory-limit",
        "--no-overflow", "--strict",
    )  # fmt: skip
    p.add_argument("-x", "--execute", metavar="FILE", dest="script", help="run the commands of a file, then end")
    p.add_argument("--resume", metavar="STATE", help="of a program: begin in a state that --save wrote")
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Open a session and carry out its commands."""
    interpreter = Interpreter(_session(options))
    if options.script is None and sys.stdin is not None and sys.stdin.isatty():
        Prompt(interpreter).cmdloop()
        return OK
    return run_script(interpreter, _lines(options.script or "-"))


def _session(options: argparse.Namespace) -> Session:
    if not is_function(options.program):
        machine, _ = prepared(options)
        return Session(machine, 0 if options.resume is None else load_state(options.resume, machine))
    from retrograd.cli.arguments import parse_arguments
    from retrograd.functions.execution import load
    from retrograd.values.binding import bind

    function, backward = function_and_direction(options)
    args, keywords = parse_arguments(options.args, function)
    given = bind(function, args, keywords)
    compiled = function.compiled_for(function.types_of(given), function.format_for())
    overflow = not options.no_overflow
    return Session(load(compiled, given, backward=backward, overflow=overflow, engine=options.engine))


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
