"""`retrograd asm`: assembly text to a binary image."""

from __future__ import annotations

import argparse

from retrograd.assembler.image import to_image
from retrograd.cli.exit_codes import OK
from retrograd.cli.files import load_program
from retrograd.cli.options import Parser
from retrograd.isa.diagnostics import printable
from retrograd.isa.files import write_file


def arguments(p: Parser) -> None:
    """Options of `retrograd asm`."""
    p.program_argument()
    p.add_argument("-o", "--output", metavar="FILE", required=True, help="the image to write")
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Assemble, and write the image."""
    program = load_program(options.program, options.include)
    image = to_image(program)
    write_file(options.output, image)
    print(
        f"{printable(options.output)}: {len(program.code)} instructions, {len(program.data)} words of data, {len(image)} bytes"
    )
    return OK
