"""The command line, `retrograd COMMAND …`: the list of commands, limits, and the exit codes of errors."""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from retrograd import __version__
from retrograd.cli.options import Parser, add_commands
from retrograd.cli.terminal import BAD_INPUT, INTERRUPTED, OK, colored, discard, only_json, standard_streams

if TYPE_CHECKING:
    from retrograd.cli.records import Options

#: command -> summary
COMMANDS = {
    "demo": "encrypt a message by running forward, decrypt it by running backward",
    "run": "run a program or a reversible function, forward or backward, to its end or its first trap",
    "test": "run the expressions of VLAD files, forward and back, and compare their values with `===>`",
    "debug": "step and run a program in both directions, and find the instruction that gave a value",
    "dap": "debug programs in an editor, by the Debug Adapter Protocol",
    "lsp": "serve assembly text to an editor, by the Language Server Protocol",
    "explore": "write a page that shows a run step by step, forward and back",
    "trace": "record a run for GTKWave, Konata, Perfetto or as JSON",
    "graph": "draw a program's control flow, and the code that undoes other code, as SVG",
    "energy": "count what a run does, and price it by a technology model",
    "entropy": "measure the information that a function loses, in bits and joules",
    "sweep": "price functions at many points: models, temperatures, clocks, formats, arguments",
    "compile": "compile a reversible function to an image, assembly text, IR, LLVM IR, PTX or PISA",
    "grad": "differentiate a reversible function: run it forward, and back with cotangents",
    "ranges": "measure the magnitudes of a function's numbers, and name the formats that hold them",
    "asm": "assemble text into a binary image",
    "dis": "print a program as assembly text that assembles to the same program",
    "invert": "print the inverse of a program of Janus",
    "verify": "check that a program can run backward everywhere, without running it",
    "isa": "describe the instruction set, or one instruction",
    "bench": "check workloads, time them beside other systems, hold them against an earlier run",
    "devices": "list what there is to run on: the processor, and CUDA devices",
    "hdl": "simulate, write out, place, prove and count the co-processor",
    "gates": "make, read, simulate and compare reversible netlists",
    "explain": "explain an error code",
    "completion": "print a script that completes commands and options in a shell",
    "man": "print the manual page",
}

#: command -> its module in `cli/commands/`, where the module has another name than the command
MODULES = {
    **dict.fromkeys(("asm", "dis", "explain", "invert", "isa", "verify"), "assembly"),
    **dict.fromkeys(("completion", "demo", "man", "test"), "shell"),
    **dict.fromkeys(("entropy", "sweep"), "energy"),
    **dict.fromkeys(("dap", "debug", "explore", "lsp", "trace"), "debugging"),
    **dict.fromkeys(("grad", "ranges"), "run"),
    "devices": "bench",
    "graph": "compile",
}


class _Versions(argparse.Action):
    """Prints the version on a line of its own, then those of Python, the system and the distributions beside it."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"retrograd {__version__}\n{installed()}")
        parser.exit()


def installed() -> str:
    """The versions of Python, of the system, and of each distribution that the package or one of its extras needs."""
    import platform
    from importlib.metadata import PackageNotFoundError, requires, version

    rows = [f"Python {platform.python_version()}, {platform.system()} on {platform.machine()}"]
    names: dict[str, list[str]] = {"needs": [], "extras": []}
    try:
        needed = requires("retrograd") or ()
    except PackageNotFoundError:  # sources that are not installed
        needed = ()
    for requirement in needed:
        kind = "extras" if "extra ==" in requirement else "needs"
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            found = f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
        if found not in (*names["needs"], *names["extras"]):
            names[kind].append(found)
    return "\n".join([*rows, *(f"{kind}: {', '.join(found)}" for kind, found in names.items() if found)])


@cache
def parser() -> Parser:
    """The grammar of the command line, built once a process. A command's own options are added when it is parsed."""
    top = Parser(
        prog="retrograd",
        description="Programs that run backward, exactly: assemble, run and inspect reversible programs.",
    )
    top.add_argument(
        "--version",
        action=_Versions,
        nargs=0,
        dest=argparse.SUPPRESS,
        default=argparse.SUPPRESS,
        help="print the versions that a report of a fault needs, and exit",
    )
    add_commands(top, "retrograd.cli.commands", COMMANDS, modules=MODULES)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. No input shows a traceback."""
    with standard_streams(), _plain_warnings():
        return _main(arguments)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """A warning is one line, without the line of source that it comes from."""
    before = warnings.formatwarning
    warnings.formatwarning = _line
    try:
        yield
    finally:
        warnings.formatwarning = before


def _line(message: Warning | str, *_: object, **__: object) -> str:
    """A warning as a line, with the place in the source where it has one."""
    span = getattr(message, "span", None)
    return f"warning: {'' if span is None else f'{span}: '}{message}\n"


def _main(arguments: Sequence[str] | None) -> int:
    from retrograd.isa.diagnostics import Diagnosed

    store: str | None = None
    try:
        try:
            run, options = parser().command_of(arguments)
        finally:
            sys.stdout.flush()  # --help ends here
        as_json, store = options.json in (True, "-"), options.store
        with colored(options.color), only_json(as_json):
            try:
                code = _run_within_limits(run, options)
            except Diagnosed as error:
                from retrograd.cli.report import show_errors

                code = show_errors(error, as_json=as_json)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        kept = f": finished parts are in {store}, and the same command goes on from there" if store else ""
        print(f"interrupted{kept}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has gone away: stop silently, as other tools do.
        discard(sys.stdout)
        return OK
    except OSError as error:
        # Files have their own diagnostics. The remaining cause is standard output, for example on a full disk.
        discard(sys.stdout)
        print(f"error: the output cannot be written: {error.strerror or error}", file=sys.stderr)
        return BAD_INPUT
    except (RecursionError, MemoryError):
        print("error: the input is too large for this machine", file=sys.stderr)
        return BAD_INPUT


def _run_within_limits(run: Callable[[], int], options: Options) -> int:
    """Run the command under the limits of --max-input and --max-expanded; an output may not replace an input.

    With --sarif, the diagnostics of a command that ends or fails are written once it has.
    """
    from retrograd.isa.diagnostics import Diagnosed, Diagnostic, InputError
    from retrograd.isa.files import Limits, command, parse_size

    given: dict[str, int] = {}
    for name, text in (("input", options.max_input), ("expanded", options.max_expanded)):
        if text is not None:
            try:
                given[name] = parse_size(text)
            except ValueError as error:
                raise InputError(Diagnostic("RG0507", f"--max-{name}: {error}")) from None
    with command(Limits(**given)), _explained_engines(options.explain_engine):
        if options.sarif is None:
            return run()
        from retrograd.cli.terminal import logged, record, write_sarif

        with logged() as entries:
            try:
                return run()
            except Diagnosed as error:
                already = [entry.diagnostic for entry in entries]
                record(d for d in error.diagnostics if all(d is not other for other in already))
                raise
            finally:
                write_sarif(options.sarif, entries)


@contextmanager
def _explained_engines(wanted: bool) -> Iterator[None]:
    """Print the decisions of all runs within, for --explain-engine."""
    if not wanted:
        yield
        return
    from retrograd.simulator.engines.tiering import recorded

    with recorded() as decisions:
        try:
            yield
        finally:
            for line in str(decisions).splitlines():
                print(f"engine: {line}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
