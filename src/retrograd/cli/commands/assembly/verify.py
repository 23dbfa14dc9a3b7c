"""`retrograd verify`: whether a program can run backward from every point."""

from __future__ import annotations

import argparse
import sys

from retrograd.assembler.verify import erasures, findings
from retrograd.cli.exit_codes import BAD_INPUT, OK
from retrograd.cli.files import read_program
from retrograd.cli.options import Parser
from retrograd.cli.report import print_findings


def arguments(p: Parser) -> None:
    """Options of `retrograd verify`."""
    p.program_argument()
    p.add_argument("--strict", action="store_true", help="refuse erase too")
    p.json_option("retrograd.findings/1")
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Print the findings."""
    program, is_checked = read_program(options.program, options.include, check=False)
    if is_checked:
        found = erasures(program) if options.strict else []
    else:
        found = findings(program, strict=options.strict)
    errors = sum(d.severity == "error" for d in found)
    if options.json:
        print_findings(found)
    elif found:
        print("\n\n".join(d.render() for d in found), file=sys.stderr)
    if not options.json:
        calls = sum(i.opcode.name == "swapbr" for i in program.instructions)
        erases = sum(i.opcode.erased_words for i in program.instructions)
        verdict = "can run backward everywhere"
        if errors:
            verdict = "cannot run backward everywhere"
        elif erases:
            verdict = f"can run backward up to its {erases} erase{'s' * (erases > 1)}"
        print(f"{len(program.code)} instructions, {calls} subroutines: the program {verdict}")
    return BAD_INPUT if errors else OK
