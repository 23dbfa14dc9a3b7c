"""`retrograd compile … --emit`: what the compiled engines make of a program, as text to read or to build with."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from retrograd import __version__
from retrograd.cli.files import fail, load_program
from retrograd.cli.main import OK
from retrograd.isa.files import write_file
from retrograd.isa.program import Program

#: options of `retrograd compile` that say how a function is compiled
_FOR_FUNCTIONS = ("erase", "no_optimise", "format")


def emit_program(options: argparse.Namespace) -> int:
    """Emit what an assembly text or an image holds."""
    if options.args:
        raise fail("RG0510", f"`{options.args[0][:60]}`: a program takes no arguments")
    for option in _FOR_FUNCTIONS:
        if getattr(options, option) not in (None, False):
            raise fail(
                "RG0512", f"--{option.replace('_', '-')} is for functions, and `{options.function}` is a program"
            )
    return emit(load_program(options.function, options.include), options)


def emit(program: Program, options: argparse.Namespace) -> int:
    """Print or write the program in the form that `--emit` names."""
    if options.emit == "ptx":
        from retrograd.simulator.engines.cuda.ptx import ptx

        arch = options.arch or "sm_80"
        text = f"// {_title('PTX', program, options.function)}, for {arch}\n{ptx(program, arch)}"
    else:
        text = _llvm(program, options.function)
    if options.output is None:
        sys.stdout.write(text)
        return OK
    data = text.encode()
    write_file(options.output, data)
    print(f"{options.output}: {len(program.code)} instructions, {len(data)} bytes")
    return OK


def _title(form: str, program: Program, name: str) -> str:
    # A name may hold what would end a comment.
    shown = ascii("standard input" if name == "-" else name if ":" in name else Path(name).name)
    return f"retrograd {__version__}: {form} of {shown}, {program.format}, {len(program.code)} instructions"


def _llvm(program: Program, name: str) -> str:
    """The module that batches run on this processor."""
    from retrograd.simulator.engines.batch.cpu import batch_ir
    from retrograd.simulator.engines.llvm.jit import host

    return (
        f"; {_title('LLVM IR', program, name)}, for {host().triple}\n"
        f"; @instance runs the program on a memory, @batch runs it for each row of a matrix of words\n\n"
        f'target triple = "{host().triple}"\n\n{batch_ir(program)}'
    )
