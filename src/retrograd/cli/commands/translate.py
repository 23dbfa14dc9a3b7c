"""`retrograd asm`, `dis`, `verify`: programs between text and image, and whether they can run backward."""

from __future__ import annotations

import argparse
import json
import sys

from retrograd.assembler.disassemble import disassemble
from retrograd.assembler.image import to_image
from retrograd.assembler.verify import findings
from retrograd.cli.files import load_program
from retrograd.cli.main import BAD_INPUT, OK
from retrograd.cli.report import as_dict
from retrograd.isa.files import write_file


def asm(options: argparse.Namespace) -> int:
    """Text -> image."""
    program = load_program(options.program, options.include)
    image = to_image(program)
    write_file(options.output, image)
    print(f"{options.output}: {len(program.code)} instructions, {len(program.data)} words of data, {len(image)} bytes")
    return OK


def dis(options: argparse.Namespace) -> int:
    """Program -> text."""
    program = load_program(options.program, options.include, check=False)
    if options.inverse:
        program = ~program
    sys.stdout.write(disassemble(program, addresses=options.addresses))
    return OK


def verify_program(options: argparse.Namespace) -> int:
    """Program -> findings."""
    program = load_program(options.program, options.include, check=False)
    found = findings(program, strict=options.strict)
    errors = sum(d.severity == "error" for d in found)
    if options.json:
        print(json.dumps({"schema": "retrograd.findings/1", "findings": [as_dict(d) for d in found]}))
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
