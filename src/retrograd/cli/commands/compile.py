"""`retrograd compile`: a reversible function as image, assembly text, IR, LLVM IR, PTX or PISA; a report of its loops."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd import __version__
from retrograd.cli.arguments import argument_named, parse_arguments
from retrograd.cli.files import function_and_inverse, input_path, is_function, read_program
from retrograd.cli.options import Parser, fail, integer, refuse_options_of_compiled
from retrograd.cli.records import CompilingOptions
from retrograd.cli.report import print_json
from retrograd.cli.terminal import OK
from retrograd.isa.diagnostics import nearest, printable
from retrograd.isa.files import check_output, write_file
from retrograd.isa.program import Program

if TYPE_CHECKING:
    from retrograd.compiler.compiled import Compiled, Storage
    from retrograd.compiler.ir.statements import Remark
    from retrograd.runtime._reversible import Inverse, Reversible


class CompileOptions(CompilingOptions):
    json: bool
    output: str | None
    asm: bool
    dump: str | None
    dump_ir: str | None
    emit: str | None
    report: bool
    gradient: str | None
    arch: str | None


def arguments_of_compile(p: Parser) -> None:
    """Options of `retrograd compile`."""
    p.add_argument(
        "program",
        metavar="FILE.py:FUNCTION",
        help="~FUNCTION for its inverse; with --emit also assembly text or an image",
    )
    p.function_arguments("examples of its arguments, where annotations leave types or shapes open")
    p.include_option()
    p.add_argument("-o", "--output", metavar="FILE", help="the image, LLVM IR, PTX or PISA to write")
    form = p.add_mutually_exclusive_group()
    form.add_argument(
        "--asm", action="store_true", help="print assembly text, with the lines of the source as comments"
    )
    form.add_argument(
        "--dump", choices=("core", "types", "first-order"),
        help="of a functional function or FILE.vlad: print its core, the types of its functions, or its first-order program",
    )  # fmt: skip
    form.add_argument("--dump-ir", metavar="PASS", help="print the reversible IR after a pass, or after each: all")
    form.add_argument(
        "--emit",
        choices=("llvm", "ptx", "pisa"),
        help="print LLVM IR for this processor, PTX, or Pendulum's PISA",
    )
    form.add_argument(
        "--report",
        action="store_true",
        help="print the loops: instructions, checks, uncomputing, lanes, and why an optimisation did not apply",
    )
    p.add_argument(
        "--gradient",
        metavar="LOSS",
        nargs="?",
        const="0",
        help="with --report, the loops of the gradient program of `retrograd grad --loss LOSS` (default: the first argument)",
    )
    p.json_option("retrograd.loops/1, of --report")
    p.add_argument(
        "--arch", choices=("sm_80", "sm_90"), help="architecture of the PTX (default: sm_80, which newer devices run)"
    )
    p.compile_options()
    p.size_options()


def execute_compile(options: CompileOptions) -> int:
    """Compile a function, and write or print it in the form that the options name."""
    if options.arch is not None and options.emit != "ptx":
        raise fail("RG0512", "--arch is for `--emit ptx`")
    if options.json and not options.report:
        raise fail("RG0512", "--json is for `--report`")
    if options.gradient is not None and not options.report:
        raise fail("RG0512", "--gradient is for `--report`", "`retrograd grad` computes gradients")
    if options.report and options.output is not None:
        raise fail("RG0512", "--report is printed, and writes no file", "leave out -o")
    if options.dump is not None and options.program.endswith(".vlad"):
        return _dump_vlad(options)
    if (options.emit is not None or options.report) and not is_function(options.program):
        return _translate_program(options)
    if options.emit == "pisa" and options.format is None:
        options = options.changed(format="32,0")
    function, inverse, args, keywords = function_to_compile(options)
    if options.dump is not None:
        return _dump(function, args, keywords, options)
    if options.dump_ir is not None:
        return _dump_ir(function, args, keywords, options.dump_ir)
    compiled = function.compiled(*args, **keywords)
    if options.gradient is not None:
        compiled, inverse = _gradient(~function if inverse else function, options.gradient, compiled), False
    program = _pisa_program(compiled) if options.emit == "pisa" else compiled.program
    program = ~program if inverse else program
    if options.emit is not None:
        return _emit(program, options)
    if options.report:
        return _report(program, options, None if inverse else compiled.storage, compiled.module.remarks)
    if options.asm:
        from retrograd.assembler.assemble import disassemble
        from retrograd.runtime._compilation import assembly

        sys.stdout.write(disassemble(program) if inverse else assembly(compiled))
        return OK
    if options.output is None:
        print(_summary(compiled))
        return OK
    from retrograd.assembler.image import to_image

    image = to_image(program)
    write_file(options.output, image)
    print(
        f"{printable(options.output)}: {len(program.code)} instructions, {program.memory} words of memory, {len(image)} bytes"
    )
    return OK


def function_to_compile(options: CompilingOptions) -> tuple[Reversible, bool, list[Any], dict[str, Any]]:
    """(the function as `compile_options` describe it, whether its inverse is named, examples of its arguments by position, and by name).

    Raises InputError RG0507, RG0510, RG0512, and as `function_and_inverse`.
    """
    function, inverse = function_and_inverse(options.program, options)
    changes: dict[str, Any] = {"level": 0 if options.no_optimise else 1}
    if options.erase is not None:
        changes["erase"] = True if options.erase == "" else frozenset(options.erase.split(","))
    if options.memory_budget is not None:
        changes["memory"] = integer(options.memory_budget, "--memory-budget", 0)
    args, keywords = parse_arguments(options.args, function)
    function = function.with_options(**changes)
    if options.strategy is not None:
        function = function.with_options(**_by_energy(function, inverse, args, keywords, options))
    elif options.tech is not None:
        raise fail("RG0512", "--tech is for `--strategy energy`")
    return function, inverse, args, keywords


def _by_energy(
    function: Reversible, inverse: bool, args: list[Any], keywords: dict[str, Any], options: CompilingOptions
) -> dict[str, Any]:
    """The options that minimise the energy of the function on these arguments."""
    from retrograd.physics.advice import advise
    from retrograd.runtime._binding import bind

    if options.erase is not None or inverse:
        what = "~FUNCTION, which cannot erase" if inverse else "--erase, which says already what is erased"
        raise fail("RG0512", f"--strategy energy does not go with {what}")
    found = advise(function, *bind(function, args, keywords), tech=options.tech or "landauer")
    return {"erase": found.options.erase, "temporaries": found.options.temporaries}


def _dump_vlad(options: CompileOptions) -> int:
    """Print a stage of the compilation of each expression of a VLAD file."""
    from retrograd.derivatives._functional import VladFunction, deep_recursion, load_vlad

    file = load_vlad(input_path(options.program))
    with deep_recursion():
        for e in file.expressions:
            _dump(VladFunction(e, options.format or file.format), [], {}, options)
    return OK


def _dump(function: Any, args: list[Any], keywords: dict[str, Any], options: CompileOptions) -> int:
    """Print a stage of the compilation of a functional function."""
    from retrograd.compiler.frontends.functional.printer import definition_text, types_text
    from retrograd.compiler.frontends.python.captures import Captures
    from retrograd.compiler.pipeline import shape_of
    from retrograd.derivatives._functional import Functional

    if not isinstance(function, Functional):
        hint = "--dump-ir prints the reversible IR of any function"
        raise fail(
            "RG0512", f"--dump {options.dump} is for functional functions, and `{options.program}` is none", hint
        )
    if options.dump == "first-order":
        return _dump_ir(function, args, keywords, "lower")
    if options.dump == "core":
        sys.stdout.write(definition_text(function.functional_core(Captures())))
    else:
        shapes = [shape_of(t) for t in _types(function, args, keywords)]
        sys.stdout.write(types_text(*function.inferred(shapes, function.format_for())))
    return OK


def _types(function: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
    """The types of the arguments: of the examples, or as annotated."""
    from retrograd.runtime._binding import bind, types_from_annotations, types_of

    return types_of(function, bind(function, args, keywords)) if args or keywords else types_from_annotations(function)


def _dump_ir(function: Any, args: list[Any], keywords: dict[str, Any], wanted: str) -> int:
    """Print the IR after one pass, or after each."""
    from retrograd.compiler.compiled import compile_function
    from retrograd.compiler.ir.text import as_text

    types = _types(function, args, keywords)
    seen: list[tuple[str, Any]] = []
    compile_function(function, types, function.format_for(), function.options, lambda n, m: seen.append((n, m)))
    names = [name for name, _ in seen]
    if wanted != "all" and wanted not in names:
        near = nearest(wanted, names) or f"passes: {', '.join(dict.fromkeys(names))}, all"
        raise fail("RG0511", f"--dump-ir {wanted}: there is no such pass", near)
    for name, module in seen:
        if wanted in ("all", name):
            print(f"# after {name}\n{as_text(module)}")
    return OK


def _summary(compiled: Compiled) -> str:
    program = compiled.program
    arguments_of_compile = "\n".join(f"  {a.address:>6}  {a.name}: {a.type}" for a in compiled.arguments)
    return (
        f"{compiled.function.__name__}: {len(program.code)} instructions, {program.memory} words of memory, {program.format}\n"
        f"arguments in memory:\n{arguments_of_compile}"
    )


# ---------------------------------------------------------------------- LLVM IR, PTX, loops


def _translate_program(options: CompileOptions) -> int:
    """Emit an assembly text or an image, or report its loops."""
    refuse_options_of_compiled(options, "--gradient")
    program, is_pisa = read_program(options.program, options.include)
    return _report(program, options) if options.report else _emit(program, options, is_pisa)


def _report(
    program: Program, options: CompileOptions, storage: Storage | None = None, remarks: Sequence[Remark] = ()
) -> int:
    """Print the loops of the program, the remarks of the compiler, and the results that the program keeps in memory."""
    from retrograd.runtime._compilation import LoopReport

    report = LoopReport(program, storage, remarks)
    if options.json:
        print_json("retrograd.loops/1", report.as_dict())
    else:
        print(report)
    return OK


def _gradient(function: Reversible | Inverse, loss: str, compiled: Compiled) -> Compiled:
    """The gradient program of an argument by all others."""
    from retrograd.derivatives._arguments import differentiable
    from retrograd.derivatives._requests import plan_of

    request = differentiable(function, 0, loss=argument_named(loss))
    return plan_of(request, compiled).program.compiled


def _pisa_program(compiled: Compiled) -> Program:
    """The program with the registers that PISA has."""
    from retrograd.assembler.pisa_writer import OPERANDS
    from retrograd.compiler.backend.emission import emit

    return emit(compiled.module, registers=OPERANDS).program


def _emit(program: Program, options: CompileOptions, is_pisa: bool = False) -> int:
    """Print or write the program in the form that `--emit` names. A program read from PISA is written as PISA at its addresses."""
    if options.emit == "pisa":
        from retrograd.assembler.pisa_writer import write_back, write_program

        text = write_back(program) if is_pisa else write_program(program)
    elif options.emit == "ptx":
        from retrograd.simulator.engines.cuda.kernels import ptx

        arch = options.arch or "sm_80"
        text = f"// {_title('PTX', program, options.program)}, for {arch}\n{ptx(program, arch)}"
    else:
        text = _llvm(program, options.program)
    if options.output is None:
        sys.stdout.write(text)
        return OK
    data = text.encode()
    write_file(options.output, data)
    print(f"{printable(options.output)}: {len(program.code)} instructions, {len(data)} bytes")
    return OK


def _title(form: str, program: Program, name: str) -> str:
    # A line break in a name would end the comment.
    shown = ascii("standard input" if name == "-" else name if ":" in name else Path(name).name)
    return f"retrograd {__version__}: {form} of {shown}, {program.format}, {len(program.code)} instructions"


def _llvm(program: Program, name: str) -> str:
    """The LLVM module of batches on this processor."""
    from retrograd.simulator.engines.batch.loops import batch_ir
    from retrograd.simulator.engines.llvm.jit import jit_compiler

    return (
        f"; {_title('LLVM IR', program, name)}, for {jit_compiler().triple}\n"
        f"; @instance runs the program on a memory, @batch runs it for each row of some arrays\n\n"
        f'target triple = "{jit_compiler().triple}"\n\n{batch_ir(program)}'
    )


# -----------------------------------------------------------------------------
# `retrograd graph`: control flow and mirrored code of a program as a picture.


class GraphOptions(CompilingOptions):
    picture: str


def arguments_of_graph(p: Parser) -> None:
    """Options of `retrograd graph`."""
    p.add_argument("-o", dest="picture", metavar="FILE.svg", required=True, help="the picture")
    p.program_argument(" or FILE.py:FUNCTION, FILE.ja[:PROCEDURE]")
    p.function_arguments("examples of its arguments, where annotations leave types or shapes open")
    p.add_argument("--inverse", action="store_true", help="draw the inverse program instead")
    p.compile_options()
    p.size_options()


def execute_graph(options: GraphOptions) -> int:
    """Draw a program."""
    from retrograd.physics._graph import graph

    if not options.picture.lower().endswith(".svg"):
        raise fail("RG0512", f"{options.picture[-40:]}: the picture is an SVG file", "write -o FILE.svg")
    check_output(options.picture)
    program = _program(options)
    name = options.program.rpartition(":")[2] if is_function(options.program) else Path(options.program).name
    write_file(options.picture, graph(program, name))
    print(f"{printable(options.picture)}: {len(program.code)} instructions")
    return OK


def _program(options: GraphOptions) -> Program:
    """The program in a file, or that of a function as `retrograd compile` makes it."""
    if is_function(options.program):
        function, inverse, args, keywords = function_to_compile(options)
        program = function.compiled(*args, **keywords).program
        return ~program if inverse != options.inverse else program
    refuse_options_of_compiled(options)
    program, _ = read_program(options.program, options.include)
    return ~program if options.inverse else program
