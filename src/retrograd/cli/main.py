"""The command line: `retrograd COMMAND …`. Each command's work is imported when it is called."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from retrograd import __version__
from retrograd.cli.streams import discard, standard_streams

#: exit codes, also in --help: what a script can act on
OK, WRONG, BAD_INPUT, TRAPPED, LIMIT = 0, 1, 2, 3, 4

_EPILOG = """\
exit codes: 0 ok, 1 wrong or worse (bench), 2 bad input (usage, assembly, image, data), 3 trap, 4 step limit, 130 interrupted
`retrograd explain CODE` explains any error; `retrograd demo` shows the whole in a minute."""


class _Parser(argparse.ArgumentParser):
    """argparse drops what it cannot print, and a full disk would pass for a success."""

    def _print_message(self, message: str, file: Any = None) -> None:
        if message:
            (file or sys.stderr).write(message)


@cache
def parser() -> argparse.ArgumentParser:
    """The command line's grammar. Made once: whoever calls `main` again and again would pay for little else."""
    top = _Parser(
        prog="retrograd",
        description="Programs that run backward, exactly: assemble, run and inspect reversible programs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"retrograd {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip

    def limited(p: argparse.ArgumentParser, *, arrays: bool = True) -> None:
        p.add_argument("--max-input", metavar="SIZE", help="refuse larger input files (default: 256M)")
        if arrays:
            p.add_argument("--max-expanded", metavar="SIZE", help="refuse .npz files that unpack to more (default: 1G)")

    def program(p: argparse.ArgumentParser, more: str = "") -> None:
        p.add_argument(
            "program", metavar="PROG", help=f"assembly text or a binary image, told apart by content; - for stdin{more}"
        )
        p.add_argument(
            "-I", "--include", metavar="DIR", action="append", default=[], help="folder that .include may read"
        )

    p = command("demo", "encrypt a message by running forward, decrypt it by running backward")

    p = command("run", "run a program or a reversible function, forward or backward, to its end or its first trap")
    program(p, " or FILE.py:FUNCTION")
    p.add_argument(
        "args",
        nargs="*",
        metavar="ARG",
        help="of a function: literals such as 1.5 or [1.0, 2.0], NAME=VALUE, @FILE.npy",
    )
    p.add_argument(
        "--engine",
        metavar="ENGINE",
        default="auto",
        help="what runs it: auto (the default), reference, native, threaded, translated; cuda for batches",
    )
    p.add_argument(
        "--batch",
        metavar="FILE.npz",
        help="run a function on each element of arrays named as its arguments are, along their first axis",
    )
    p.add_argument(
        "--shared",
        metavar="NAME",
        action="append",
        default=[],
        help="an array of the batch that is one argument, the same for all elements; may be repeated",
    )
    p.add_argument("-o", dest="output", metavar="OUT.npz", help="the file to write a batch's results to")
    p.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="sets",
        help="set a register or the word at a data label; VALUE is a constant such as 42, 0x2a or 1.5q",
    )
    p.add_argument(
        "--mem",
        metavar="[WHERE=]FILE[,TYPE]",
        action="append",
        default=[],
        help="load memory at a data label or address (default 0) from a file",
    )
    p.add_argument(
        "--out",
        metavar="[WHERE[:COUNT]=]FILE[,TYPE]",
        action="append",
        default=[],
        help="save memory after the run; TYPE: text textq npy npyq word u8 u16 u16be u32 u32be u64 u64be "
        "(default: by suffix .txt .npy, else word)",
    )
    p.add_argument("--backward", action="store_true", help="start at `finish` and run back to `start`")
    p.add_argument("--inverse", action="store_true", help="run the inverse program instead")
    p.add_argument("--max-steps", metavar="N", help="stop after N steps (exit code 4)")
    p.add_argument(
        "--break",
        metavar="WHERE",
        action="append",
        default=[],
        dest="breaks",
        help="stop before the instruction at a label or address",
    )
    p.add_argument("--memory", metavar="WORDS", help="size of the data memory, if larger than the program's own")
    p.add_argument("--memory-limit", metavar="WORDS", help="refuse programs that want more memory")
    p.add_argument("--no-overflow", action="store_true", help="let fixed-point results wrap instead of trapping")
    p.add_argument("--strict", action="store_true", help="refuse to erase")
    p.add_argument("--cycles", action="store_true", help="tell what the co-processor would take, by instruction")
    p.add_argument("--trace", action="store_true", help="print every step and what it changed, on stderr")
    p.add_argument(
        "--json", action="store_true", help="print the outcome as JSON (schema retrograd.run/1, call/1 or batch/1)"
    )
    limited(p)

    p = command("energy", "count what a run does, and price it by a technology model")
    p.add_argument("program", metavar="PROG", nargs="?", help="FILE.py:FUNCTION, assembly text or an image")
    p.add_argument("args", nargs="*", metavar="ARG", help="of a function: literals such as 1.5, NAME=VALUE, @FILE.npy")
    p.add_argument("-I", "--include", metavar="DIR", action="append", default=[], help="folder that .include may read")
    p.add_argument("--batch", metavar="FILE.npz", help="a function on each element of arrays, see run")
    p.add_argument("--shared", metavar="NAME", action="append", default=[], help="see run")
    p.add_argument("--tech", metavar="MODEL", help="a model's name (see --models), or a TOML file (default: landauer)")
    p.add_argument("--models", action="store_true", help="list the models")
    p.add_argument("--compare", metavar="A,B", help="several models beside each other")
    p.add_argument("--temperature", metavar="T", help="such as 4.2K (default: the model's)")
    p.add_argument("--frequency", metavar="F", help="clock, such as 5GHz (default: the model's)")
    p.add_argument(
        "--figure", metavar="NAME=VALUE", action="append", default=[], dest="figures",
        help="a figure that the model leaves open, such as resistance=10kohm, or low:value:high with a unit",
    )  # fmt: skip
    p.add_argument("--gates", metavar="FILE", help="gate counts (default: those that come with the hardware)")
    p.add_argument("--advise", action="store_true", help="for each routine: erase or uncompute, and why")
    p.add_argument("--timeline", action="store_true", help="look at every step: bits toggled, and live over time")
    p.add_argument("--plot", metavar="FILE", help="draw it: .png, .svg or .pdf")
    p.add_argument(
        "--plot-kind", choices=("causes", "frequency", "delay", "time"), default="causes",
        help="energy by cause (default), against the clock, against the time of the run; bits over time",
    )  # fmt: skip
    p.add_argument("--engine", metavar="ENGINE", default="auto", help="what runs it, see run")
    p.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], dest="sets", help="see run")
    p.add_argument("--mem", metavar="[WHERE=]FILE[,TYPE]", action="append", default=[], help="see run; counted as load")
    p.add_argument("--out", metavar="[WHERE[:COUNT]=]FILE[,TYPE]", action="append", default=[], help="see run; counted")
    p.add_argument("--backward", action="store_true", help="start at `finish` and run back to `start`")
    p.add_argument("--inverse", action="store_true", help="run the inverse program instead")
    p.add_argument("--max-steps", metavar="N", help="stop after N steps (exit code 4)")
    p.add_argument("--memory", metavar="WORDS", help="size of the data memory, if larger than the program's own")
    p.add_argument("--memory-limit", metavar="WORDS", help="refuse programs that want more memory")
    p.add_argument("--no-overflow", action="store_true", help="let fixed-point results wrap instead of trapping")
    p.add_argument("--strict", action="store_true", help="refuse to erase")
    p.add_argument(
        "--json", action="store_true",
        help="as JSON (schema retrograd.energy/1, energy-comparison/1, energy-advice/1 or technologies/1)",
    )  # fmt: skip
    limited(p)

    p = command("sweep", "price functions at many points: models, temperatures, clocks, formats, arguments")
    p.add_argument("functions", metavar="FILE.py:FUNCTION", nargs="+", help="~FUNCTION for its inverse")
    p.add_argument(
        "--args", metavar="'ARG …'", action="append", default=[], dest="arguments",
        help="arguments of a run, in one word of the shell, as energy takes them; may be repeated, for a run each. --args='-1.0 2' where "
        "the first is negative",
    )  # fmt: skip
    p.add_argument("--format", metavar="Q,Q", help="formats such as Q32.32,Q16.16 (default: the function's)")
    p.add_argument("--tech", metavar="A,B", default="landauer", help="models, see energy (default: landauer)")
    p.add_argument("--temperature", metavar="T,T", help="such as 4.2K,300K (default: the model's)")
    p.add_argument("--frequency", metavar="F,F", help="clocks, such as 1MHz,5GHz (default: the model's)")
    p.add_argument(
        "--figure", metavar="NAME=VALUE", action="append", default=[], dest="figures",
        help="a figure that models leave open, such as resistance=10kohm",
    )  # fmt: skip
    p.add_argument("--gates", metavar="FILE", help="gate counts (default: those that come with the hardware)")
    p.add_argument("--store", metavar="FILE", help="a file of SQLite: rows are kept there, and not run again")
    p.add_argument("--jobs", metavar="N", default="1", help="processes that run (default: 1)")
    p.add_argument("--max-steps", metavar="N", help="stop each run after N steps")
    p.add_argument("--quiet", action="store_true", help="no progress on the terminal")
    p.add_argument("--json", action="store_true", help="as JSON (schema retrograd.energy-sweep/2)")
    limited(p, arrays=False)

    p = command("compile", "compile a reversible function to an image, assembly text, IR, LLVM IR or PTX")
    p.add_argument(
        "function",
        metavar="FILE.py:FUNCTION",
        help="~FUNCTION for its inverse; with --emit also assembly text or an image",
    )
    p.add_argument(
        "args", nargs="*", metavar="ARG", help="examples of its arguments, where annotations leave types or shapes open"
    )
    p.add_argument("-I", "--include", metavar="DIR", action="append", default=[], help="folder that .include may read")
    p.add_argument("-o", "--output", metavar="FILE", help="the image to write, or what --emit makes")
    form = p.add_mutually_exclusive_group()
    form.add_argument(
        "--asm", action="store_true", help="print assembly text, with the lines of the source as comments"
    )
    form.add_argument("--dump-ir", metavar="PASS", help="print the reversible IR after a pass, or after each: all")
    form.add_argument(
        "--emit",
        choices=("llvm", "ptx"),
        help="print what compiled code is made of: LLVM IR for this processor, or PTX",
    )
    p.add_argument(
        "--arch", choices=("sm_80", "sm_90"), help="what PTX is made for (default: sm_80, which newer ones run)"
    )
    p.add_argument(
        "--erase",
        metavar="ROUTINES",
        nargs="?",
        const="",
        help="erase what routines compute, in place of uncomputing it; all, or those named, with commas",
    )
    p.add_argument(
        "--strategy",
        choices=("energy",),
        help="erase each routine where that is cheaper than uncomputing it, for the arguments given, by --tech",
    )
    p.add_argument("--tech", metavar="MODEL", help="the technology model of --strategy energy (default: landauer)")
    p.add_argument("--no-optimise", action="store_true", help="leave the IR as it was lowered")
    p.add_argument("--format", metavar="W,F", help="word width and fraction, such as 32,16 or Q16.16")
    limited(p, arrays=False)

    p = command("grad", "differentiate a reversible function: run it forward, and back with cotangents")
    p.add_argument("function", metavar="FILE.py:FUNCTION", help="~FUNCTION for its inverse")
    p.add_argument("args", nargs="*", metavar="ARG", help="literals such as 1.5 or [1.0, 2.0], NAME=VALUE, @FILE.npy")
    p.add_argument(
        "--loss", metavar="NAME", default="0", help="argument whose final value is differentiated (default: the first)"
    )
    p.add_argument(
        "--wrt",
        metavar="NAME",
        action="append",
        help="argument to differentiate by; may be repeated (default: all that have a derivative but the loss)",
    )
    p.add_argument("--scale", metavar="K", default="0", help="run with the loss's cotangent at 2^K, and divide by it")
    p.add_argument("--format", metavar="W,F", help="word width and fraction, such as 32,16 or Q16.16")
    p.add_argument("--json", action="store_true", help="print the gradients as JSON (schema retrograd.gradient/1)")
    limited(p, arrays=False)

    p = command("asm", "assemble text into a binary image")
    program(p)
    p.add_argument("-o", "--output", metavar="FILE", required=True, help="the image to write")
    limited(p, arrays=False)

    p = command("dis", "print a program as assembly text that assembles to the same program")
    program(p)
    p.add_argument("--addresses", action="store_true", help="add addresses and encodings as comments")
    p.add_argument("--inverse", action="store_true", help="print the inverse program")
    limited(p, arrays=False)

    p = command("verify", "check that a program can run backward everywhere, without running it")
    program(p)
    p.add_argument("--strict", action="store_true", help="refuse erase too")
    p.add_argument("--json", action="store_true", help="print the findings as JSON (schema retrograd.findings/1)")
    limited(p, arrays=False)

    p = command("isa", "describe the instruction set, or one instruction")
    p.add_argument("name", nargs="?", help="an instruction, such as mul, mul.add or goto.lt")
    p.add_argument("--json", action="store_true", help="the whole table as JSON (schema retrograd.isa/1)")
    p.add_argument("--markdown", action="store_true", help="the manual as Markdown")

    p = command("bench", "check workloads, time them beside other systems, hold them against an earlier run")
    p.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help="those that are run (default: all, and the toolchain)"
    )
    p.add_argument("--quick", action="store_true", help="small sizes, few repeats: a minute or two")
    p.add_argument(
        "--peers", metavar="A,B", default="",
        help="other systems: numba, enzyme, casadi, warp, jax, torch, autograd, or all; pip install 'retrograd[bench]'",
    )  # fmt: skip
    p.add_argument("--data", metavar="FOLDER", help="ADBench's files, with folders ba and gmm: larger sizes")
    p.add_argument("--full", action="store_true", help="bundle adjustment at all sizes of --data, piece by piece: long")
    p.add_argument("--json", metavar="FILE", help="write all that was found (schema retrograd.bench/2); - prints it")
    p.add_argument(
        "--from", dest="from_", metavar="FILE", help="take the figures from such a file: nothing is measured"
    )
    p.add_argument(
        "--report", metavar="FOLDER", help="write benchmarks.md there, and its pictures and figures to benchmarks/"
    )
    p.add_argument(
        "--check", metavar="FILE", help="compare ratios and counts with such a file; exit code 1 if any is worse"
    )
    limited(p, arrays=False)

    p = command("devices", "list what there is to run on: the processor, and CUDA devices")
    p.add_argument("--json", action="store_true", help="print it as JSON (schema retrograd.devices/1)")

    p = command("hdl", "simulate, write out, place, prove and count the co-processor")
    from retrograd.cli.commands.hdl_options import add_commands

    add_commands(p, program)

    p = command("explain", "explain an error code")
    p.add_argument("code", nargs="?", metavar="RG…", help="a code such as RG0108; none lists them all")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. No input shows a traceback."""
    with standard_streams(), _plain_warnings():
        return _main(arguments)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """A warning is one line, without the line of source that it comes from."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


def _main(arguments: Sequence[str] | None) -> int:
    from retrograd.isa.diagnostics import RetrogradError

    options = argparse.Namespace()
    try:
        try:
            parser().parse_args(arguments, options)
        finally:
            sys.stdout.flush()  # --help ends here
        try:
            code = _dispatch_within_limits(options)
        except RetrogradError as error:
            from retrograd.cli.report import show_errors

            code = show_errors(error, as_json=getattr(options, "json", False) in (True, "-"))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away; stop without a word, as other tools do.
        discard(sys.stdout)
        return OK
    except OSError as error:
        # Files have their own diagnostics: what is left is the output itself, on a full disk for one.
        discard(sys.stdout)
        print(f"error: the output cannot be written: {error.strerror or error}", file=sys.stderr)
        return BAD_INPUT
    except (RecursionError, MemoryError):
        print("error: the input is too large for this machine", file=sys.stderr)
        return BAD_INPUT


def _dispatch_within_limits(options: argparse.Namespace) -> int:
    """Run the command; its outputs may not replace its inputs, and those have the sizes that the options allow."""
    from retrograd.isa.diagnostics import Diagnostic, InputError
    from retrograd.isa.files import Limits, command, parse_size

    given: dict[str, int] = {}
    for name in ("input", "expanded"):
        text = getattr(options, f"max_{name}", None)
        if text is not None:
            try:
                given[name] = parse_size(text)
            except ValueError as error:
                raise InputError(Diagnostic("RG0507", f"--max-{name}: {error}")) from None
    with command(Limits(**given)):
        return _dispatch(options)


def _dispatch(options: argparse.Namespace) -> int:
    match options.command:
        case "run":
            from retrograd.cli.commands.functions import is_function, run_function

            if is_function(options.program):
                return run_function(options)
            from retrograd.cli.commands.run import run

            return run(options)
        case "compile":
            from retrograd.cli.commands.functions import compile_command

            return compile_command(options)
        case "grad":
            from retrograd.cli.commands.gradients import gradient_command

            return gradient_command(options)
        case "energy":
            from retrograd.cli.commands.energy import energy_command

            return energy_command(options)
        case "sweep":
            from retrograd.cli.commands.sweep import sweep_command

            return sweep_command(options)
        case "bench":
            from retrograd.cli.commands.bench import bench_command

            return bench_command(options)
        case "devices":
            from retrograd.cli.commands.devices import devices

            return devices(options)
        case "hdl":
            from retrograd.cli.commands.hdl import hdl_command

            return hdl_command(options)
        case "demo":
            from retrograd.cli.commands.demo import demo

            return demo()
        case "asm" | "dis" | "verify":
            from retrograd.cli.commands import translate

            return {"asm": translate.asm, "dis": translate.dis, "verify": translate.verify_program}[options.command](
                options
            )
        case _:
            from retrograd.cli.commands import reference

            return reference.isa(options) if options.command == "isa" else reference.explain(options)


if __name__ == "__main__":
    sys.exit(main())
