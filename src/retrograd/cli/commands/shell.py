"""Commands about the command line itself: `completion` and `man`; then `demo` and `test`.

    grammar(parser())  =  Command("retrograd", options, arguments, (Command("demo", …), …))

Completion scripts and the manual page are written from this grammar, which is read from the parsers: no list is kept beside them.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from retrograd import __version__
from retrograd.assembler.assemble import assemble
from retrograd.cli.files import input_path
from retrograd.cli.options import EXIT_CODES, Parser, step_limit
from retrograd.cli.records import FunctionOptions, Options
from retrograd.cli.report import print_json, print_trap, show_errors
from retrograd.cli.terminal import OK, WRONG
from retrograd.isa.diagnostics import RetrogradError, printable
from retrograd.isa.words import format_of
from retrograd.simulator.engines.tiering import engine_named
from retrograd.simulator.machine import Machine

# -----------------------------------------------------------------------------
# Commands, options and arguments of the command line as plain data, read from the parsers.

#: words in the name of a value that is a path
_PATHS = re.compile(r"FILE|PROG|DIR|PAGE|PATH|OUT|FOLDER")


@dataclass(frozen=True)
class Argument:
    """An option (with names) or a positional argument (without).

    `value`: the name of its value, None for a flag. `choices`: all values that it takes, where they are listed.
    """

    names: tuple[str, ...]
    value: str | None
    choices: tuple[str, ...]
    help: str
    repeated: bool
    needed: bool

    @property
    def is_path(self) -> bool:
        """Whether its value names a file or a folder."""
        return self.value is not None and not self.choices and _PATHS.search(self.value) is not None


@dataclass(frozen=True)
class Command:
    """A command: its path from `retrograd` on, its options and arguments, and its own commands."""

    path: tuple[str, ...]
    summary: str
    options: tuple[Argument, ...]
    arguments: tuple[Argument, ...]
    commands: tuple[Command, ...]

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def key(self) -> str:
        """The names after `retrograd`, separated by blanks."""
        return " ".join(self.path[1:])

    def all(self) -> Iterator[Command]:
        """This command and all below it, a command before its own commands."""
        yield self
        for command in self.commands:
            yield from command.all()


def grammar(p: Parser, path: tuple[str, ...] = ("retrograd",), summary: str = "") -> Command:
    """The grammar that starts at a parser. It imports the module of each command."""
    p.filled()
    found = [_argument(p, action) for action in p.options if action.help != argparse.SUPPRESS]
    commands = tuple(
        grammar(child, (*path, name), child.description or "") for name, child in (p.commands or {}).items()
    )
    options = tuple(a for a in found if a.names)
    return Command(path, summary or p.description or "", options, tuple(a for a in found if not a.names), commands)


def _argument(p: Parser, action: argparse.Action) -> Argument:
    names = tuple(sorted(action.option_strings, key=len))
    takes_value = not names or action.nargs != 0
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return Argument(
        names,
        value if takes_value else None,
        tuple(str(choice) for choice in action.choices or ()),
        " ".join((action.help or "").replace("%(prog)s", p.prog).replace("%%", "%").split()),
        repeated=action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction),
        needed=action.nargs not in ("?", "*") if not names else action.required,
    )


# -----------------------------------------------------------------------------
# The completion script of bash. Commands come first, then options behind a dash, values of the option before, and files.

_SCRIPT = """\
# bash completion of retrograd; load it with: source <(retrograd completion bash)
_retrograd() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} path="" word i
    local commands="" options="" values="" files=no
    # bash splits --option=value into three words.
    if [[ $cur == "=" ]]; then
        cur=""
    elif [[ $prev == "=" ]]; then
        prev=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
        case "${{path:+$path }}$word" in
            {paths}) path="${{path:+$path }}$word" ;;
        esac
    done
    case "$path" in
{cases}
    esac
    case "$path:$prev" in
{after}
    esac
    COMPREPLY=()
    if [[ -n $values ]]; then
        [[ $values == " " ]] || COMPREPLY=($(compgen -W "$values" -- "$cur"))
    elif [[ $files == only ]]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$cur"))
    elif [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
    else
        COMPREPLY=($(compgen -W "$commands" -- "$cur"))
        if [[ $files == yes ]]; then
            compopt -o filenames 2>/dev/null
            COMPREPLY+=($(compgen -f -- "$cur"))
        fi
    fi
}}
complete -F _retrograd retrograd
"""


def bash_script(top: Command) -> str:
    """The script for `source <(retrograd completion bash)`."""
    everything = list(top.all())
    cases, after = [], []
    for command in everything:
        words = [child.name for child in command.commands]
        words += [choice for argument in command.arguments for choice in argument.choices]
        names = " ".join(name for option in command.options for name in option.names)
        files = "yes" if any(a.is_path for a in command.arguments) else "no"
        cases.append(f'        "{command.key}") commands="{" ".join(words)}" options="{names}" files={files} ;;')
        after += [line for option in command.options if (line := _value(command, option))]
    paths = "|".join(f'"{command.key}"' for command in everything if command.key)
    return _SCRIPT.format(paths=paths, cases="\n".join(cases), after="\n".join(after))


def _value(command: Command, option: Argument) -> str:
    """The case for the word behind an option; a value without a list has no completion."""
    if option.value is None:
        return ""
    pattern = "|".join(f'"{command.key}:{name}"' for name in option.names)
    action = "files=only" if option.is_path else f'values="{" ".join(option.choices) or " "}"'
    return f"        {pattern}) {action} ;;"


# -----------------------------------------------------------------------------
# The completion script of fish: a line for each command and each option, under the condition of its command.

_FISH_HEAD = """\
# fish completion of retrograd; load it with: retrograd completion fish | source
function __retrograd_at --description 'whether the words so far lead to this command'
    set -l path
    for word in (commandline -opc)[2..-1]
        set -l next (string join ' ' -- $path $word)
        if contains -- "$next" {paths}
            set path $next
        end
    end
    test "$path" = "$argv[1]"
end
complete -c retrograd -f
"""


def fish_script(top: Command) -> str:
    """The script for `retrograd completion fish | source`."""
    everything = list(top.all())
    lines = []
    for command in everything:
        line = f"complete -c retrograd -n {_fish_quoted(f'__retrograd_at {_fish_quoted(command.key)}')}"
        lines += [f"{line} -a {child.name} -d {_fish_quoted(child.summary)}" for child in command.commands]
        lines += [f"{line}{_fish_option(option)}" for option in command.options]
        lines += [f"{line}{_fish_positional(argument)}" for argument in command.arguments if _fish_positional(argument)]
    paths = " ".join(_fish_quoted(command.key) for command in everything if command.key)
    return _FISH_HEAD.format(paths=paths) + "\n".join(lines) + "\n"


def _fish_option(option: Argument) -> str:
    names = "".join(f" -l {n[2:]}" if n.startswith("--") else f" -s {n[1:]}" for n in option.names)
    value = ""
    if option.value is not None:
        value = (
            " -r -F"
            if option.is_path
            else " -x" + (f" -a {_fish_quoted(' '.join(option.choices))}" * bool(option.choices))
        )
    return f"{names}{value} -d {_fish_quoted(option.help)}"


def _fish_positional(argument: Argument) -> str:
    if argument.choices:
        return f" -a {_fish_quoted(' '.join(argument.choices))}"
    return " -F" if argument.is_path else ""


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# -----------------------------------------------------------------------------
# The manual page in the macros of man(7): every command with its options, exit codes, environment and files.

_ENVIRONMENT = {
    "NO_COLOR": "If set and not empty, diagnostics have no colours, unless --color is given.",
    "FORCE_COLOR": "If set and not empty, diagnostics have colours also where standard error is no terminal.",
    "RETROGRAD_CACHE": "Folder of the cache of compiled code.",
    "RETROGRAD_FULL_TRACEBACK": "If set, errors of the Python interface keep all frames of their tracebacks.",
}


def man_page(top: Command, exit_codes: Mapping[int, str]) -> str:
    """The page retrograd(1). `exit_codes`: code -> meaning."""
    summary = top.summary[0].lower() + top.summary[1:].rstrip(".")
    out = [f'.TH RETROGRAD 1 "" "retrograd {__version__}" "User Commands"']
    out += [".SH NAME", f"retrograd \\- {_text(summary)}"]
    out += [".SH SYNOPSIS", ".B retrograd", ".I COMMAND", "[\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]"]
    out += [".SH OPTIONS", *_options(top.options)]
    out.append(".SH COMMANDS")
    for command in top.all():
        if command is not top:
            out += [f".SS {_text(command.key)}", _text(command.summary), ".PP", _synopsis(command)]
            out += [*_options(command.arguments), *_options(command.options)]
    out.append(".SH EXIT STATUS")
    for code, meaning in exit_codes.items():
        out += [".TP", f".B {code}", _text(meaning)]
    out.append(".SH ENVIRONMENT")
    for name, meaning in _ENVIRONMENT.items():
        out += [".TP", f".B {name}", _text(meaning)]
    return "\n".join(line for line in out if line) + "\n"


def _synopsis(command: Command) -> str:
    words = [f"\\fB{_text(' '.join(command.path))}\\fR"]
    if command.commands:
        words.append("\\fICOMMAND\\fR")
    for argument in command.arguments:
        value = f"\\fI{_text(argument.value or '')}\\fR" + "..." * argument.repeated
        words.append(value if argument.needed else f"[{value}]")
    if command.options:
        words.append("[\\fIOPTIONS\\fR]")
    return " ".join(words)


def _options(found: tuple[Argument, ...]) -> list[str]:
    out = []
    for argument in found:
        value = "" if argument.value is None else f"\\fI{_text(argument.value)}\\fR"
        names = ", ".join(f"\\fB{_text(name)}\\fR" for name in argument.names)
        out += [".TP", " ".join(part for part in (names, value) if part), _text(argument.help) or "\\ "]
    return out


def _text(text: str) -> str:
    """Text without requests or escapes of roff in it; dashes of options are ASCII hyphens."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


# -----------------------------------------------------------------------------
# The completion script of zsh: a function for each command, which `_arguments` follows.

_ZSH_HEAD = """\
#compdef retrograd
# zsh completion of retrograd; keep it as _retrograd in a folder of $fpath, or load it with: source <(retrograd completion zsh)
"""
_TAIL = """\
if [[ $funcstack[1] == _retrograd ]]; then
    _retrograd "$@"
else
    compdef _retrograd retrograd
fi
"""


def zsh_script(top: Command) -> str:
    """The script for a file `_retrograd`, or for `source <(retrograd completion zsh)`."""
    return _ZSH_HEAD + "".join(_function(command) for command in top.all()) + _TAIL


def _name(command: Command) -> str:
    return "_" + "_".join(command.path)


def _function(command: Command) -> str:
    specs = [_zsh_option(option) for option in command.options]
    if not command.commands:
        specs += [_zsh_positional(argument) for argument in command.arguments]
        body = "    _arguments -s " + " \\\n        ".join(specs)
        return f"{_name(command)}() {{\n{body}\n}}\n"
    listed = " ".join(_zsh_quoted(f"{_colons(child.name)}:{child.summary}") for child in command.commands)
    cases = "".join(f"        {child.name}) {_name(child)} ;;\n" for child in command.commands)
    return (
        f"{_name(command)}() {{\n"
        "    local context state state_descr line\n"
        "    typeset -A opt_args\n"
        f"    local -a commands=({listed})\n"
        f"    _arguments -C {' '.join(specs)} '1:command:->command' '*::argument:->rest'\n"
        "    case $state in\n"
        "    command) _describe command commands ;;\n"
        f"    rest) case $words[1] in\n{cases}        esac ;;\n"
        "    esac\n"
        "}\n"
    )


def _zsh_option(option: Argument) -> str:
    text = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    value = "" if option.value is None else f":{_colons(option.value)}:{_action(option)}"
    star = "*" if option.repeated else "" if len(option.names) == 1 else f"({' '.join(option.names)})"
    specs = [
        _zsh_quoted(f"{star}{name}{'=' * (name.startswith('--') and bool(value))}[{text}]{value}")
        for name in option.names
    ]
    return " ".join(specs)


def _zsh_positional(argument: Argument) -> str:
    place = "*" if argument.repeated else "" if argument.needed else ":"
    return _zsh_quoted(f"{place}:{_colons(argument.value or '')}:{_action(argument)}")


def _action(argument: Argument) -> str:
    if argument.choices:
        return f"({' '.join(argument.choices)})"
    return "_files" if argument.is_path else " "


def _colons(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")


def _zsh_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# -----------------------------------------------------------------------------
# `retrograd completion`: a script that completes commands, options and their values.

_SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}


class CompletionOptions(Options):
    shell: str


def arguments_of_completion(p: Parser) -> None:
    """Options of `retrograd completion`."""
    p.add_argument("shell", metavar="SHELL", choices=tuple(_SCRIPTS), help="bash, zsh or fish")


def execute_completion(options: CompletionOptions) -> int:
    """Print the script of one shell."""
    from retrograd.cli.main import parser

    sys.stdout.write(_SCRIPTS[options.shell](grammar(parser())))
    return OK


# -----------------------------------------------------------------------------
# `retrograd man`: the manual page, for `man -l` and for packages.


def arguments_of_man(p: Parser) -> None:
    """`retrograd man` has no options of its own."""


def execute_man(options: Options) -> int:
    """Print the page in the macros of man(7)."""
    from retrograd.cli.main import parser

    sys.stdout.write(man_page(grammar(parser()), EXIT_CODES))
    return OK


# -----------------------------------------------------------------------------
# `retrograd demo`: a cipher that has no decryption routine, because the program runs backward.

_KEY = (0x00010203, 0x04050607, 0x08090A0B, 0x0C0D0E0F)
_SHOWN = 56


def _words(data: bytes) -> list[int]:
    return [int.from_bytes(data[i : i + 4], "big") for i in range(0, len(data), 4)]


def _bytes(machine: Machine, address: int, count: int) -> bytes:
    return b"".join(word.to_bytes(4, "big") for word in machine.memory[address : address + count])


def _excerpt(text: str, label: str, lines: int) -> str:
    """Some lines of a source, from a label on."""
    found = text.splitlines()
    at = next(i for i, line in enumerate(found) if line.startswith(f"{label}:"))
    return "\n".join(found[at : at + lines])


def arguments_of_demo(p: Parser) -> None:
    """`retrograd demo` has no options."""


def execute_demo(options: Options) -> int:
    """Assemble, verify, run forward, run backward, and show that every bit is back."""
    folder = files("retrograd.examples")
    source = folder.joinpath("xtea.rga").read_text("utf-8")
    program = assemble(source, name="xtea.rga")
    message = folder.joinpath("message.txt").read_bytes()
    message += b"\0" * (-len(message) % 8)
    text = program.data_labels["text"]

    print("Retrograd runs programs backward, exactly. This is the cipher XTEA in its assembly language;")
    print("it encrypts. There is no decryption routine: the same program, run from its end to its start, decrypts.\n")
    print(_excerpt(source, "cycle", 11) + "\n        …\n")

    machine = Machine(program, strict=True)
    machine.load(program.data_labels["key"], _KEY)
    machine.load(program.data_labels["blocks"], [len(message) // 8])
    machine.load(text, _words(message))
    before = machine.state()

    print(f"message   {message[:_SHOWN]!r} … ({len(message)} bytes)")
    begun = time.perf_counter()
    out = machine.run()
    spent = time.perf_counter() - begun
    cipher = _bytes(machine, text, len(message) // 4)
    print(f"forward   {cipher[: _SHOWN // 2].hex()} …  {out.steps} instructions, {out.steps / spent / 1e6:.1f} M/s")
    begun = time.perf_counter()
    back = machine.run_back()
    spent = time.perf_counter() - begun
    plain = _bytes(machine, text, len(message) // 4)
    print(f"backward  {plain[:_SHOWN]!r} …  {back.steps} instructions, {back.steps / spent / 1e6:.1f} M/s\n")

    same = "every register and every memory word is back, bit for bit" if machine.state() == before else "NOT RESTORED"
    print(f"{same}; {machine.erased_bits} bits were erased on the way.")
    print("A program that erases nothing loses no information, and needs no tape to run backward.\n")
    print("next:  retrograd isa              the instructions, each with its inverse and its adjoint")
    print("       retrograd isa fmul         one of them")
    print("       retrograd run PROG --trace every step of a program of yours; add --backward to see it undone")
    return OK


# -----------------------------------------------------------------------------
# `retrograd test`: the expressions of VLAD files that have an expected value, forward and back.


class TestOptions(FunctionOptions):
    json: bool
    files: Sequence[str]
    engine: str
    max_steps: str | None
    no_overflow: bool


def arguments_of_test(p: Parser) -> None:
    """Options of `retrograd test`."""
    p.add_argument("files", metavar="FILE.vlad", nargs="+", help="files with lines `expression ===> value`")
    p.run_options("--engine", "--format", "--max-steps", "--no-overflow")
    p.json_option("retrograd.vlad-test/1")
    p.size_options()


def execute_test(options: TestOptions) -> int:
    """Run the tests, and print the failures. All expressions are evaluated; those without expected value must not trap.

    An expression that is refused or traps fails by itself: those behind it are tests, too.
    """
    from retrograd.compiler.frontends.vlad.data import shown as datum_text
    from retrograd.derivatives._functional import evaluations, load_vlad, shown
    from retrograd.runtime._execution import ProgramTrap

    engine_named(options.engine)
    format = None if options.format is None else format_of(options.format)
    tests = wrong = refused = 0
    failures = []
    for path in options.files:
        file = load_vlad(input_path(path), checked=False)
        for expression in file.expressions:
            tests += expression.expected is not None
            problems = []
            try:
                [e] = evaluations(
                    file,
                    [expression],
                    format=format,
                    precision=options.precision,
                    engine=options.engine,
                    back=True,
                    max_steps=step_limit(options.max_steps),
                    overflow=not options.no_overflow,
                )
            except RetrogradError as error:
                refused += 1
                problems.append(f"{error.diagnostics[0].code}: {error.diagnostics[0].message}")
                if not options.json:
                    if isinstance(error, ProgramTrap):
                        print_trap(error)
                    else:
                        show_errors(error, as_json=False)
            else:
                if not e.restored or e.erased_bits:
                    problems.append(f"the run back does not restore zeros, or {e.erased_bits} bits are erased")
                if expression.expected is not None and not e.agrees:
                    problems.append(f"{shown(e.value)} in place of {datum_text(expression.expected)}")
                if not options.json:
                    for text in problems:
                        print(printable(f"{expression.datum.at.span}: {text}"), file=sys.stderr)
            wrong += bool(problems)
            failures += [{"where": str(expression.datum.at.span), "problem": text} for text in problems]
    if options.json:
        print_json("retrograd.vlad-test/1", {"tests": tests, "failures": failures})
    else:
        files = f"{len(options.files)} file{'s' * (len(options.files) != 1)}"
        print(f"{tests} tests in {files}, {wrong} failed" + f", of which {refused} are refused or trap" * bool(refused))
    return WRONG if wrong else OK
