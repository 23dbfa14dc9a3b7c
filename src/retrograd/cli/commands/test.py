"""`retrograd test`: the expressions of VLAD files that have an expected value, forward and back."""

from __future__ import annotations

import argparse
import sys

from retrograd.cli.exit_codes import OK, WRONG
from retrograd.cli.files import input_path
from retrograd.cli.options import Parser, step_limit
from retrograd.cli.report import print_json, print_trap
from retrograd.isa.diagnostics import printable
from retrograd.simulator.engines.tiering import engine_named


def arguments(p: Parser) -> None:
    """Options of `retrograd test`."""
    p.add_argument("files", metavar="FILE.vlad", nargs="+", help="files with lines `expression ===> value`")
    p.run_options("--engine", "--format", "--max-steps", "--no-overflow")
    p.json_option("retrograd.vlad-test/1")
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Run the tests, and print the failures. All expressions are evaluated; those without expected value must not trap."""
    from retrograd.compiler.frontends.vlad.reader import shown as datum_text
    from retrograd.derivatives._functional import evaluations, load_vlad, shown
    from retrograd.runtime._execution import ProgramTrap

    engine_named(options.engine)
    tests = wrong = 0
    failures = []
    for path in options.files:
        found = evaluations(
            load_vlad(input_path(path)),
            format=options.format,
            precision=options.precision,
            engine=options.engine,
            back=True,
            max_steps=step_limit(options),
            overflow=not options.no_overflow,
        )
        try:
            for e in found:
                where = str(e.expression.datum.at.span)
                problems = []
                if not e.restored or e.erased_bits:
                    problems.append(f"the run back does not restore zeros, or {e.erased_bits} bits are erased")
                if e.expression.expected is not None:
                    tests += 1
                    if not e.agrees:
                        problems.append(f"{shown(e.value)} in place of {datum_text(e.expression.expected)}")
                wrong += bool(problems)
                failures += [{"where": where, "problem": text} for text in problems]
                if not options.json:
                    for text in problems:
                        print(printable(f"{where}: {text}"), file=sys.stderr)
        except ProgramTrap as trap:
            return print_trap(trap, as_json=options.json)
    if options.json:
        print_json("retrograd.vlad-test/1", {"tests": tests, "failures": failures})
    else:
        print(f"{tests} tests in {len(options.files)} file{'s' * (len(options.files) != 1)}, {wrong} failed")
    return WRONG if wrong else OK
