"""Parsers of commands, and the options that several commands share.

A command NAME is a class and two functions in a module of `cli/commands/`:

    NameOptions              the values of the options, a record: see `records.py`
    arguments_of_NAME(p)     adds the options to the command's parser
    execute_NAME(options)    does the work and returns the exit code

A group of commands NAME, such as `hdl`, has `execute_NAME(run)`, in which one of its commands runs.

`add_commands` imports the module when the command is parsed, so `retrograd --help` imports none. An option of
`run_options` has the same name, meaning and help text in each command that has it. To add one is an entry of `_RUN`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from retrograd.cli.terminal import CHOICES, is_colored, painted
from retrograd.isa.diagnostics import Diagnostic, InputError, nearest, printable

if TYPE_CHECKING:
    from retrograd.cli.records import MachineOptions, Options, ProgramOptions
    from retrograd.isa.entries import Opcode
    from retrograd.runtime._execution import Scale

#: exit code -> meaning, see `terminal.py`
EXIT_CODES = {
    0: "ok",
    1: "wrong or worse (bench, hdl formal)",
    2: "bad input (usage, assembly, image, data)",
    3: "trap",
    4: "step limit",
    130: "interrupted",
}

EPILOG = f"""\
exit codes: {", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())}
`retrograd explain CODE` explains any error; `retrograd demo` shows the whole in a minute."""

#: an option of one letter, and no negative number
_OPTION = re.compile(r"-[A-Za-z]")

#: characters of an argument that an error shows
_LONGEST = 200

_REPEATED: Any = {"action": "append", "default": []}
_FLAG: Any = {"action": "store_true"}

#: option of a run -> how argparse adds it
_RUN: dict[str, dict[str, Any]] = {
    "--engine": {
        "metavar": "ENGINE", "default": "auto",
        "help": "engine that runs it: auto (the default), reference, native, threaded, translated; cuda for batches",
    },
    "--explain-engine": {**_FLAG, "help": "print on stderr which engine ran, and the costs that it was chosen by"},
    "--format": {"metavar": "W,F", "help": "of a function: word width and fraction, such as 32,16 or Q16.16"},
    "--precision": {
        "metavar": "HOW", "choices": ("warn", "error", "ignore"), "help": "of a function: what is done with numbers that lose more "
        "than half of their bits in the format: warn (the default), error, ignore",
    },
    "--dialect": {
        "metavar": "DIALECT", "choices": ("jana", "1982"),
        "help": "of Janus: jana, or 1982 (default: by the name and text of the file)",
    },
    "--entry": {"metavar": "PROCEDURE", "help": "of Janus: the procedure where the run begins, as in FILE.ja:PROCEDURE"},
    "--batch": {
        "metavar": "FILE.npz",
        "help": "run a function on each element of arrays named as its arguments are, along their first axis",
    },
    "--shared": {
        "metavar": "NAME", **_REPEATED,
        "help": "an array of the batch that is one argument, the same for all elements; may be repeated",
    },
    "--set": {
        "metavar": "NAME=VALUE", **_REPEATED, "dest": "sets",
        "help": "of a program: set a register or the word at a data label; VALUE is a constant such as 42, 0x2a or 1.5q",
    },
    "--mem": {
        "metavar": "[WHERE=]FILE[,TYPE]", **_REPEATED,
        "help": "of a program: load memory at a data label or address (default 0) from a file",
    },
    "--out": {
        "metavar": "[WHERE[:COUNT]=]FILE[,TYPE]", **_REPEATED,
        "help": "of a program: save memory after the run; TYPE: text textq npy npyq word u8 u16 u16be u32 u32be u64 u64be "
        "(default: by suffix .txt .npy, else word)",
    },
    "--backward": {**_FLAG, "help": "start at `finish` and run back to `start`"},
    "--inverse": {**_FLAG, "help": "run the inverse program instead"},
    "--max-steps": {"metavar": "N", "help": "stop after N steps (exit code 4)"},
    "--memory": {"metavar": "WORDS", "help": "of a program: size of the data memory, if larger than the program's own"},
    "--memory-limit": {"metavar": "WORDS", "help": "refuse programs that need more memory"},
    "--no-overflow": {**_FLAG, "help": "let fixed-point results wrap instead of trapping"},
    "--strict": {**_FLAG, "help": "of a program: refuse to erase"},
}  # fmt: skip
#: options of a run that a function does not have: its arguments and its own code stand for them
_OF_PROGRAMS = (
    "--set", "--mem", "--out", "--break", "--memory", "--memory-limit", "--strict", "--include",
    "--until", "--resume", "--turn", "--save",
)  # fmt: skip
OF_BATCHES = ("--shared", "-o", "--workers", "--scheduler", "--store", "--chunk", "--quiet")
_OF_FUNCTIONS = ("--batch", *OF_BATCHES)
OF_JANUS = ("--dialect", "--entry")
#: options of `compile_options`: a program is compiled already
_OF_COMPILED = (
    "--erase",
    "--strategy",
    "--tech",
    "--memory-budget",
    "--no-optimise",
    "--format",
    "--precision",
    *OF_JANUS,
)
_DESTINATIONS = {"--set": "sets", "--break": "breaks", "-o": "output"}


# ---------------------------------------------------------------------- parsers


class Parser(argparse.ArgumentParser):
    """The parser of a command; the command's module adds its options when they are first needed."""

    def __init__(self, *args: Any, module: str | None = None, command: str = "", **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.epilog, self.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
        self.color = (
            False  # Python 3.14 colours help on a terminal; `--color` decides here, and pages are made of this text
        )
        self._negative_number_matcher = re.compile(r"-\.?[0-9]")  # of argparse, which takes no -1e-5
        self._module, self._command = module, command
        self._takes_arguments = False

    def filled(self) -> Parser:
        """The parser with its options."""
        if self._module is not None:
            from retrograd.cli.records import Options

            module, self._module = import_module(self._module), None
            getattr(module, f"arguments_of_{self._command}")(self)
            execute = getattr(module, f"execute_{self._command}")
            if self.commands is not None:
                self.set_defaults(within=execute)
            else:
                record = getattr(module, f"{self._command.capitalize()}Options", Options)
                self.set_defaults(command=(execute, record))
                self._diagnostics_options()
        return self

    def command_of(self, arguments: Sequence[str] | None) -> tuple[Callable[[], int], Options]:
        """(the command that the arguments name, to be run; its options)"""
        found = vars(self.parse_args(arguments))
        (execute, record), within = found.pop("command"), found.pop("within", None)
        options: Options = record(**found)
        run = partial(execute, options)
        return run if within is None else partial(within, run), options

    @property
    def commands(self) -> Mapping[str, Parser] | None:
        """The parsers of its commands by name, or None for a command that has none. They may lack their options, see `filled`."""
        groups = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return next((group.choices for group in groups), None)

    @property
    def options(self) -> Sequence[argparse.Action]:
        """The options and arguments, in the order of the help text."""
        return [action for action in self._actions if not isinstance(action, argparse._SubParsersAction)]

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all of the arguments: the command that an unknown argument belongs to ends the process with its own usage."""
        self.filled()
        given = sys.argv[1:] if args is None else list(args)
        if not given and self.commands is not None:
            self.print_help()
            self.exit()
        found, rest = super().parse_known_args(given, namespace)
        if self._takes_arguments and not any(text.startswith("--") or _OPTION.match(text) for text in rest):
            # argparse gives a function no arguments behind an option: `run F --cycles 1.0`
            found.args, rest = [*found.args, *rest], []
        if rest:
            names = [name for name in self._option_string_actions if name.startswith("--")]
            hints = (nearest(text.partition("=")[0], names) for text in rest if text.startswith("-"))
            hint = next((f"; {hint}" for hint in hints if hint), "")
            self.error(f"unrecognized arguments: {' '.join(rest)[:_LONGEST]}{hint}")
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is no choice, with the nearest choice."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        shown = ascii(str(value)[:_LONGEST])[1:-1]
        hint = nearest(str(value), names)
        if isinstance(action, argparse._SubParsersAction):
            message = f"no command is named `{shown}`; {hint or f'`{self.prog} --help` lists the commands'}"
        else:
            message = f"`{shown}` is none of {', '.join(names)}" + (f"; {hint}" if hint else "")
        raise argparse.ArgumentError(action, message)

    def error(self, message: str) -> NoReturn:
        """End the process with the usage of this command, the message, and exit code 2."""
        self.print_usage(sys.stderr)
        text = f"{self.prog}: error: {printable(message, lines=True)}"
        self.exit(2, f"{painted(text) if is_colored(sys.stderr) else text}\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse ignores errors of writing here, and a full disk would look like success.
        if message:
            (file or sys.stderr).write(message)

    # ------------------------------------------------------------------ shared options

    def _diagnostics_options(self) -> None:
        """--color and --sarif, which every command has."""
        self.add_argument(
            "--color", metavar="WHEN", choices=CHOICES, default="auto",
            help="colours of diagnostics: auto (the default, for a terminal), always, never",
        )  # fmt: skip
        self.add_argument("--sarif", metavar="FILE", help="also write the diagnostics as SARIF 2.1.0; - for stdout")

    def program_argument(self, more: str = "", **keywords: Any) -> None:
        """PROG, and the folders of its `.include` lines."""
        text = f"assembly text or a binary image, told apart by content; - for stdin{more}"
        self.add_argument(
            "programs" if keywords.get("nargs") == "+" else "program", metavar="PROG", help=text, **keywords
        )
        self.include_option()

    def include_option(self) -> None:
        """-I DIR."""
        self.add_argument("-I", "--include", metavar="DIR", **_REPEATED, help="folder that .include may read")

    def loss_option(self, text: str) -> None:
        """--loss NAME, without a default."""
        self.add_argument("--loss", metavar="NAME", help=text)

    def function_arguments(
        self, text: str = "of a function: literals such as 1.5 or [1.0, 2.0], NAME=VALUE, @FILE.npy"
    ) -> None:
        """ARG…: the arguments of a function."""
        self.add_argument("args", nargs="*", metavar="ARG", help=text)
        self._takes_arguments = True

    def run_options(self, *names: str, **defaults: str) -> None:
        """The options of a run: all, or those named; `defaults` are named by destination."""
        for name in (*names, *(("--precision",) if "--format" in names else ())) or _RUN:
            action = self.add_argument(name, **_RUN[name])
            if action.dest in defaults:
                action.default = defaults[action.dest]
                action.help = f"{action.help} (default: {action.default})"

    def compile_options(self) -> None:
        """The options of a function that is compiled, see `function_to_compile` of `commands/compile.py`."""
        self.add_argument(
            "--erase", metavar="ROUTINES", nargs="?", const="",
            help="erase the results of routines instead of uncomputing them; of all routines, or of those named, with commas",
        )  # fmt: skip
        self.add_argument(
            "--strategy", choices=("energy",),
            help="erase each routine where that is cheaper than uncomputing it, for the arguments given, by --tech",
        )  # fmt: skip
        self.add_argument(
            "--tech", metavar="MODEL", help="the technology model of --strategy energy (default: landauer)"
        )
        self.add_argument(
            "--memory-budget", metavar="WORDS",
            help="words that the program may use to keep results of loops that it would compute again (default: 0)",
        )  # fmt: skip
        self.add_argument("--no-optimise", action="store_true", help="leave the IR as it was lowered")
        self.run_options("--format", "--dialect", "--entry")

    def core_option(self, lanes: bool = False, slots: bool = False) -> None:
        """--core; with `lanes`, also --lanes; with `slots`, also --slots."""
        self.add_argument(
            "--core", metavar="CORE", default="small", help="the co-processor's core: small (the default), fast, barrel"
        )
        if lanes:
            self.add_argument(
                "--lanes", metavar="N",
                help="threads of the core barrel, 8 to 16 (default: 8)",
            )  # fmt: skip
        if slots:
            self.add_argument(
                "--slots",
                metavar="N",
                help="micro-operations of a thread of the core barrel in a turn, 1 or 2 (default: 1)",
            )

    def technology_options(self, tech: str) -> None:
        """A technology model and its operating point; `tech`: the help text of --tech."""
        self.add_argument("--tech", metavar="MODEL", help=tech)
        self.add_argument("--temperature", metavar="T", help="such as 4.2K (default: the model's)")
        self.add_argument("--frequency", metavar="F", help="clock, such as 5GHz (default: the model's)")
        self.figure_option()

    def figure_option(self) -> None:
        """Figures of a technology model."""
        self.add_argument(
            "--figure", metavar="NAME=VALUE", **_REPEATED, dest="figures",
            help="a figure that the model leaves open, such as resistance=10kohm, or low:value:high with a unit",
        )  # fmt: skip

    def gates_option(self) -> None:
        """Gate counts of the hardware."""
        self.add_argument("--gates", metavar="FILE", help="gate counts (default: those that come with the hardware)")

    def activity_option(self) -> None:
        """Switching activity that was measured."""
        self.add_argument(
            "--activity", metavar="FILE.json",
            help="how often gates switched in a run, by `retrograd hdl run --activity` (default: as the model assumes)",
        )  # fmt: skip

    def distribution_options(self, store: str | None = None) -> None:
        """--workers and --scheduler; `store`: the help text of --store."""
        self.add_argument("--workers", metavar="N", help="processes that share the work (default: 1)")
        self.add_argument(
            "--scheduler", metavar="ADDRESS",
            help="a scheduler of Dask whose workers share the work, such as tcp://HOST:8786; pip install 'retrograd[sweep]'",
        )  # fmt: skip
        if store is not None:
            self.add_argument("--store", metavar="FILE", help=f"a file of SQLite: {store}")

    def size_options(self, *, arrays: bool = False) -> None:
        """The limits of input files."""
        self.add_argument("--max-input", metavar="SIZE", help="refuse larger input files (default: 256M)")
        if arrays:
            self.add_argument(
                "--max-expanded", metavar="SIZE", help="refuse .npz files that unpack to more (default: 1G)"
            )

    def json_option(self, *schemas: str) -> None:
        """--json."""
        self.add_argument("--json", action="store_true", help=f"print JSON (schema {', '.join(schemas)})")


def add_commands(
    p: Parser,
    package: str,
    listed: Mapping[str, str],
    modules: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Give a parser its commands, name -> summary.

    `modules`: command -> module of the package that has its functions. The module of a command that is not listed has the command's name.
    """
    commands = p.add_subparsers(metavar="COMMAND", required=True)
    for name, summary in listed.items():
        commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            module=f"{package}.{modules.get(name, name)}",
            command=name,
        )


# ---------------------------------------------------------------------- values of options


def fail(code: str, message: str, hint: str | None = None) -> InputError:
    """An InputError with one diagnostic."""
    return InputError(Diagnostic(code, message, hint=hint))


def integer(text: str, option: str, least: int | None = None, noun: str = "") -> int:
    """The integer that an option has; `noun`: a phrase for all other texts. Raises InputError RG0507."""
    try:
        value = int(text, 0)
        if noun and least is not None and value < least:
            raise ValueError
    except ValueError:
        hint = f"{least} or more" if noun else "Write an integer such as 1000 or 0x3e8."
        raise fail("RG0507", f"{option}: `{text[:40]}` is no {noun or 'integer'}", hint) from None
    if least is not None and value < least:
        raise fail(
            "RG0507", f"{option}: {value} is {'negative' if least == 0 else f'less than {least}'}", f"{least} or more"
        )
    return value


def slots_given(core: str, slots: str | None) -> int:
    """The value of --slots. Raises InputError RG0507, RG0512, RG1125."""
    from retrograd.isa.microarchitecture.micro_operations import BARREL, MAX_SLOTS, core_units

    core_units(core)
    if slots is None:
        return 1
    if core != BARREL:
        raise fail("RG0512", f"--slots is for the core barrel, and not for {core}", "--core barrel")
    number = integer(slots, "--slots", 1)
    if number > MAX_SLOTS:
        raise fail("RG0507", f"--slots {number}: the core barrel has 1 to {MAX_SLOTS}")
    return number


def no_instruction(name: str, more: Iterable[str] = ()) -> InputError:
    """The error for a name that no instruction has, nor one of `more`."""
    from retrograd.isa.table import TABLE

    return fail("RG0506", f"no instruction is named `{name[:40]}`", nearest(name, [*TABLE.names, *more]))


def opcodes_named(name: str) -> list[Opcode]:
    """The opcode of that name or shorthand; of an entry's name, as `mul`, all of its opcodes. Raises InputError RG0506."""
    from retrograd.isa.table import TABLE

    try:
        return [TABLE[name]] if name in TABLE.by_name else TABLE.named(name)
    except KeyError:
        raise no_instruction(name) from None


def scale_given(text: str) -> Scale:
    """The value of --scale for a function. Raises InputError RG0507."""
    return "auto" if text == "auto" else integer(text, "--scale")


def step_limit(text: str | None) -> int | None:
    """The value of --max-steps. Raises InputError RG0507."""
    return None if text is None else integer(text, "--max-steps", 0)


def figures_of(texts: Sequence[str]) -> dict[str, str]:
    """The values of --figure by name. Raises InputError RG0507, RG0512 for a figure that is given twice."""
    figures: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise fail("RG0507", f"--figure {text[:60]}: written NAME=VALUE", "for example --figure resistance=10kohm")
        if name in figures:
            raise fail("RG0512", f"--figure {name[:40]} is given twice", "give each figure once")
        figures[name] = value
    return figures


def given_option(options: Options, names: Sequence[str]) -> str | None:
    """The first option of these that is given."""
    places = {name: _DESTINATIONS.get(name, name.strip("-").replace("-", "_")) for name in names}
    return next(
        (name for name, place in places.items() if getattr(options, place, None) not in (None, False, [], ())), None
    )


def refuse_options_of_programs(options: ProgramOptions, *more: str) -> None:
    """Raise InputError RG0512 if a function is run with an option that only programs have."""
    option = given_option(options, (*_OF_PROGRAMS, *more))
    if option is not None:
        hint = (
            "write the arguments after the function; `retrograd compile` makes a program of it, which takes this option"
        )
        raise fail("RG0512", f"{option} is for assembly and images, and `{options.program}` is a function", hint)


def refuse_options_of_compiled(options: ProgramOptions, *more: str) -> None:
    """Raise InputError RG0510, RG0512 if a program has arguments or options of a function that is compiled."""
    if options.args:
        raise fail("RG0510", f"`{options.args[0][:60]}`: a program takes no arguments")
    option = given_option(options, (*_OF_COMPILED, *more))
    if option is not None:
        raise fail("RG0512", f"{option} is for functions, and `{options.program}` is a program")


def refuse_options_of_functions(options: MachineOptions) -> None:
    """Raise InputError RG0510, RG0512 if a program is run with arguments or options that only functions have."""
    option = given_option(options, _OF_FUNCTIONS)
    if option is not None:
        hint = "write FILE.py:FUNCTION; memory of a single run is loaded by --mem and saved by --out"
        raise fail("RG0512", f"{option} is for functions: a program does not say what its arguments are", hint)
    if options.args:
        hint = "set registers with --set and memory with --mem; for a function write FILE.py:FUNCTION"
        raise fail("RG0510", f"`{options.args[0][:60]}`: a program takes no arguments", hint)
    if options.format is not None:
        raise fail("RG0512", "--format is for functions: a program says what it is for")
    if options.precision is not None:
        raise fail("RG0512", "--precision is for functions: a program has words")
    option = given_option(options, OF_JANUS)
    if option is not None:
        raise fail("RG0512", f"{option} is for programs of Janus")
