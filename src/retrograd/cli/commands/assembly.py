"""`retrograd asm`: assembly text to a binary image."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from retrograd import catalogue
from retrograd.assembler.assemble import disassemble
from retrograd.assembler.image import to_image
from retrograd.assembler.instructions import SUGAR, sugar_page
from retrograd.assembler.verify import erasures, findings
from retrograd.cli.files import input_path, load_program, read_program
from retrograd.cli.options import Parser, fail, no_instruction
from retrograd.cli.records import Options
from retrograd.cli.report import print_findings, print_json
from retrograd.cli.terminal import BAD_INPUT, OK, print_diagnostics, record
from retrograd.isa.diagnostics import Diagnostic, RetrogradError, nearest, printable
from retrograd.isa.files import write_file
from retrograd.isa.manual import pages as manual


class AsmOptions(Options):
    program: str
    include: Sequence[str]
    output: str


def arguments_of_asm(p: Parser) -> None:
    """Options of `retrograd asm`."""
    p.program_argument()
    p.add_argument("-o", "--output", metavar="FILE", required=True, help="the image to write")
    p.size_options()


def execute_asm(options: AsmOptions) -> int:
    """Assemble, and write the image."""
    program = load_program(options.program, options.include)
    image = to_image(program)
    write_file(options.output, image)
    print(
        f"{printable(options.output)}: {len(program.code)} instructions, {len(program.data)} words of data, {len(image)} bytes"
    )
    return OK


# -----------------------------------------------------------------------------
# `retrograd dis`: a program as assembly text.


class DisOptions(Options):
    program: str
    include: Sequence[str]
    addresses: bool
    inverse: bool


def arguments_of_dis(p: Parser) -> None:
    """Options of `retrograd dis`."""
    p.program_argument()
    p.add_argument("--addresses", action="store_true", help="add addresses and encodings as comments")
    p.add_argument("--inverse", action="store_true", help="print the inverse program")
    p.size_options()


def execute_dis(options: DisOptions) -> int:
    """Print the program, which need not pass the verifier."""
    program = load_program(options.program, options.include, check=False)
    sys.stdout.write(disassemble(~program if options.inverse else program, addresses=options.addresses))
    return OK


# -----------------------------------------------------------------------------
# `retrograd isa`: the manual of the instruction set, from the table.


class IsaOptions(Options):
    json: bool
    name: str | None
    markdown: bool


def arguments_of_isa(p: Parser) -> None:
    """Options of `retrograd isa`."""
    p.add_argument("name", metavar="OPCODE", nargs="?", help="an instruction, such as mul, mul.add or goto.lt")
    p.json_option("retrograd.isa/1")
    p.add_argument("--markdown", action="store_true", help="the manual as Markdown")


def execute_isa(options: IsaOptions) -> int:
    """Print the whole table, or one instruction."""
    if options.json:
        print_json("retrograd.isa/1", manual.as_json())
    elif options.markdown:
        print(manual.manual())
    elif options.name is None:
        print(manual.summary())
    else:
        try:
            print(manual.entry_page(options.name))
        except KeyError:
            page = sugar_page(options.name)
            if page is not None:
                print(page)
                return OK
            raise no_instruction(options.name, SUGAR) from None
    return OK


# -----------------------------------------------------------------------------
# `retrograd verify`: whether programs can run backward from every point.


class VerifyOptions(Options):
    json: bool
    programs: Sequence[str]
    include: Sequence[str]
    strict: bool


def arguments_of_verify(p: Parser) -> None:
    """Options of `retrograd verify`."""
    p.program_argument("; several programs are checked one after another", nargs="+")
    p.add_argument("--strict", action="store_true", help="refuse erase too")
    p.json_option("retrograd.findings/1")
    p.size_options()


def execute_verify(options: VerifyOptions) -> int:
    """Print the findings of all programs, and a verdict on each. A program that cannot be read does not stop the others."""
    files = options.programs
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


def _checked(file: str, options: VerifyOptions) -> tuple[list[Diagnostic], str]:
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


# -----------------------------------------------------------------------------
# `retrograd invert`: the inverse program of a program of Janus.


class InvertOptions(Options):
    program: str
    output: str | None
    jana: bool
    dialect: str | None


def arguments_of_invert(p: Parser) -> None:
    """Options of `retrograd invert`."""
    p.add_argument("program", metavar="FILE.ja", help="a program of Janus")
    p.add_argument("-o", dest="output", metavar="OUT.ja", help="the file to write (default: standard output)")
    p.add_argument("--jana", action="store_true", help="leave the statements of `main` as they are, as `jana -i` does")
    p.run_options("--dialect")
    p.size_options()


def execute_invert(options: InvertOptions) -> int:
    """Print or write the inverse program."""
    if not options.program.endswith((".ja", ".janus")):
        hint = "`retrograd dis --inverse` prints the inverse of an assembly program; `FILE.py:~FUNCTION` is the inverse of a function"
        raise fail("RG0509", f"`{options.program}` is no program of Janus", hint)
    from retrograd.compiler.frontends.janus.syntax import inverted, program_text
    from retrograd.runtime._reversible import read_janus

    text = program_text(inverted(read_janus(input_path(options.program), options.dialect), main=not options.jana))
    if options.output is None:
        sys.stdout.write(printable(text, lines=True))
    else:
        write_file(options.output, text)
    return OK


# -----------------------------------------------------------------------------
# `retrograd explain`: the catalogue of errors.


class ExplainOptions(Options):
    code: str | None


def arguments_of_explain(p: Parser) -> None:
    """Options of `retrograd explain`."""
    p.add_argument("code", nargs="?", metavar="RG…", help="a code such as RG0108; without one, all are listed")


def execute_explain(options: ExplainOptions) -> int:
    """Print one error code, or the list of them."""
    kinds = catalogue.catalogue()
    if options.code is None:
        print("\n".join(f"{kind.code}  {kind.title}" for kind in kinds.values()))
        return OK
    try:
        print(catalogue.explain(options.code.upper()))
    except KeyError:
        raise fail("RG0506", f"no error has the code `{options.code}`", nearest(options.code, kinds)) from None
    return OK
