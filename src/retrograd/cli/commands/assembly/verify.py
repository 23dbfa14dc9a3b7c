"""`retrograd verify`: whether programs can run backward from every point."""

from __future__ import annotations

import argparse

from retrograd.assembler.verify import erasures, findings
from retrograd.cli.exit_codes import BAD_INPUT, OK
from retrograd.cli.files import read_program
from retrograd.cli.findings.color import print_diagnostics
from retrograd.cli.findings.log import record
from retrograd.cli.options import Parser, fail
from retrograd.cli.report import print_findings
from retrograd.isa.diagnostics import Diagnostic, RetrogradError, printable


def arguments(p: Parser) -> None:
    """Options of `retrograd verify`."""
    p.program_argument("; several programs are checked one after another", nargs="+")
    p.add_argument("--strict", action="store_true", help="refuse erase too")
    p.json_option("retrograd.findings/1")
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Print the findings of all programs, and a verdict on each. A program that cannot be read does not stop the others."""
    files: list[str] = options.programs
    if files.count("-") > 1:
        raise fail("RG0507", "standard input is named twice", "Give `-` once.")
    everything: list[Diagnostic] = []
    verdicts: list[str] = []
    wrong = 0
    for file in files:
        found, verdict = _checked(file, options)
        record(found, None if file == "-" else file)
        everything += found
        verdicts.append(f"{printable(file)}: {verdict}" if len(files) > 1 else verdict)
        wrong += any(d.severity == "error" for d in found)
    if options.json:
        print_findings(everything)
    elif everything:
        print_diagnostics("\n\n".join(d.render() for d in everything))
    if not options.json and options.sarif != "-":
        print("\n".join(verdict for verdict in verdicts if verdict))
        if len(files) > 1:
            print(f"{len(files)} programs, {wrong} with errors")
    return BAD_INPUT if wrong else OK


def _checked(file: str, options: argparse.Namespace) -> tuple[list[Diagnostic], str]:
    """(the findings in one program, the verdict as a sentence)."""
    try:
        program, is_checked = read_program(file, options.include, check=False)
    except RetrogradError as error:
        if len(options.programs) == 1:
            record(error.diagnostics, None if file == "-" else file)
            raise
        return list(error.diagnostics), "is no program"
    if is_checked:
        found = erasures(program) if options.strict else []
    else:
        found = findings(program, strict=options.strict)
    calls = sum(i.opcode.name == "swapbr" for i in program.instructions)
    erases = sum(i.opcode.erased_words for i in program.instructions)
    verdict = "can run backward everywhere"
    if any(d.severity == "error" for d in found):
        verdict = "cannot run backward everywhere"
    elif erases:
        verdict = f"can run backward up to its {erases} erase{'s' * (erases > 1)}"
    return found, f"{len(program.code)} instructions, {calls} subroutines: the program {verdict}"
