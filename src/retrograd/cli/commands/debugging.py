"""The commands of `retrograd debug`, as text in and text out, and the prompt of a terminal."""

from __future__ import annotations

import cmd
import importlib.util
import io
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from retrograd.cli.files import constant, gradient_of, input_path, is_function, opened, opened_way_back, read_bytes
from retrograd.cli.options import Parser, fail, integer, refuse_options_of_programs
from retrograd.cli.records import Options, RecordingOptions
from retrograd.cli.report import memory_table, registers_table, show_errors
from retrograd.cli.terminal import BAD_INPUT, LIMIT, OK
from retrograd.isa.diagnostics import RetrogradError, nearest, printable
from retrograd.isa.encoding import write as write_instruction
from retrograd.isa.files import check_output
from retrograd.observe._adapter import Adapter
from retrograd.observe._server import Arguments, Connection, Launched, bad_request
from retrograd.observe._session import Event, Session
from retrograd.observe._timeline import Write, load_state, save_state
from retrograd.observe._variables import UNSETTLED, UNSETTLED_NOTE, Place, Variable, is_among, shown, unsettled_names
from retrograd.presentation import columns
from retrograd.simulator.energy.counts import Counts, by_line
from retrograd.simulator.energy.pricing import PricingContext, pricing_context
from retrograd.simulator.energy.technology import Range, with_prefix
from retrograd.simulator.engines.tiering import engine_named
from retrograd.simulator.machine import Machine

if TYPE_CHECKING:
    from retrograd.observe._explorer import Exploration

#: abbreviation -> command
_SHORT = {
    "s": "step", "b": "break", "c": "continue", "rc": "reverse-continue", "rs": "reverse-step", "n": "next",
    "rn": "reverse-next", "p": "print", "bt": "backtrace", "l": "list", "q": "quit", "i": "info", "?": "help",
}  # fmt: skip
_LISTED = 5
#: elements of an array that `info` shows
_ELEMENTS = 8


def say(text: str) -> None:
    """Print a text with names and lines of the program in it."""
    print(printable(text, lines=True))


class Interpreter:
    """Carries out the commands of one session and prints their results."""

    def __init__(self, session: Session, prices: PricingContext) -> None:
        self.session, self.prices = session, prices
        #: command -> (its function, its summary)
        self.commands: dict[str, tuple[Callable[[str], None], str]] = {
            "step": (self._repeated(session.step), "step [N]: one instruction"),
            "reverse-step": (self._repeated(session.step, back=True), "reverse-step [N]: one instruction back"),
            "next": (self._repeated(session.step_over), "next [N]: one instruction, calls as a whole"),
            "reverse-next": (self._repeated(session.step_over, back=True), "reverse-next [N]: the same, back"),
            "line": (self._repeated(session.step_line), "line [N]: to the next line of the source"),
            "reverse-line": (self._repeated(session.step_line, back=True), "reverse-line [N]: one line back"),
            "out": (self._repeated(session.step_out), "out [N]: until the procedure returns"),
            "reverse-out": (self._repeated(session.step_out, back=True), "reverse-out [N]: back to its call"),
            "continue": (self._repeated(session.resume), "continue [N]: to the next stop"),
            "reverse-continue": (
                self._repeated(session.resume, back=True),
                "reverse-continue [N]: to the last stop before",
            ),
            "turn": (self._turn, "turn: face the other way; steps are counted from 0 again"),
            "to": (self._to, "to N: to the step with a number"),
            "until": (self._until, "until EXPR: single steps until an expression is true"),
            "reverse-until": (self._reverse_until, "reverse-until EXPR: the same, back"),
            "break": (self._break, "break WHERE [if EXPR]: WHERE is a label, FILE:LINE, :LINE or *ADDRESS"),
            "watch": (self._watch, "watch PLACE: stop where a register or word changes"),
            "delete": (self._delete, "delete N: remove a breakpoint or watch"),
            "print": (self._print, "print EXPR: such as `n`, `r1`, `total[2] + 1`, `real(total)`, `cotangent(x)`"),
            "set": (self._set, "set PLACE = VALUE"),
            "why": (self._why, "why PLACE: the instructions that gave it its value"),
            "last-write": (self._last_write, "last-write PLACE: the last change before this step"),
            "backtrace": (self._backtrace, "backtrace: the active calls"),
            "list": (self._list, "list: the instructions around this one"),
            "info": (self._info, "info: variables, registers and memory"),
            "counts": (self._counts, "counts: bits erased, cycles and energy up to here, and of each line"),
            "save": (self._save, "save FILE: the state, for --resume"),
            "help": (self._help, "help: this list"),
        }

    def execute(self, line: str) -> bool:
        """Carry out one line; True for `quit`. Raises RetrogradError."""
        text = line.partition("#")[0].strip()
        if not text:
            return False
        name, _, rest = text.partition(" ")
        name = _SHORT.get(name, name)
        if name == "quit":
            return True
        if name not in self.commands:
            hint = nearest(name, self.commands) or "`help` lists the commands"
            raise fail("RG1305", f"there is no command `{name:.40}`", hint)
        carry_out, summary = self.commands[name]
        operands = summary.partition(":")[0].partition(" ")[2]
        if rest.strip() and not operands:
            raise fail("RG1305", f"`{name}` takes no operand", summary)
        if operands and not operands.startswith("[") and not rest.strip():
            raise fail("RG1305", f"{name}: {operands.partition(' ')[0]} is missing", summary)
        carry_out(rest.strip())
        return False

    # ------------------------------------------------------------------ motion

    def _repeated(self, move: Callable[..., Event], **how: Any) -> Callable[[str], None]:
        def run(text: str) -> None:
            event = None
            for _ in range(integer(text, "N", 1) if text else 1):
                event = move(**how)
                if event.reason not in ("step", "breakpoint", "watch"):
                    break
            assert event is not None
            self._stopped(event)

        return run

    def _stopped(self, event: Event) -> None:
        if event.breakpoint is not None:
            say(f"breakpoint {event.breakpoint.number}, {event.breakpoint.text}")
        elif event.write is not None:
            say(f"{event.write.place}: {self._change(event.write)}")
        elif event.trap is not None:
            say(f"trap {event.trap.diagnostics[0].code}: {event.trap.diagnostics[0].message}")
        elif event.reason in ("end", "beginning"):
            say(f"the {event.reason} of the run")
        self._here()

    def _here(self) -> None:
        session = self.session
        program = session.machine.program
        if 0 <= session.pc < len(program.code):
            say(f"step {session.position}, {self._located(session.pc)}")
        else:
            say(f"step {session.position}, pc {session.pc}, outside of the code")

    def _located(self, pc: int) -> str:
        program = self.session.machine.program
        span = program.source.span(pc)
        line = program.source.line(span)
        text = f"pc {pc}: {write_instruction(program.instructions[pc])}"
        return text if span is None else f"{text}    {span.file}:{span.line}: {(line or '').strip()}".rstrip(" :")

    def _to(self, text: str) -> None:
        self._stopped(self.session.to(integer(text, "to")))

    def _turn(self, text: str) -> None:
        self.session.turn()
        say("the run goes backward" if self.session.machine.direction < 0 else "the run goes forward")
        self._here()

    def _until(self, text: str) -> None:
        self._stopped(self.session.run_until(text))

    def _reverse_until(self, text: str) -> None:
        self._stopped(self.session.run_until(text, back=True))

    # ------------------------------------------------------------------ stops

    def _break(self, text: str) -> None:
        where, found, condition = text.partition(" if ")
        made = self.session.break_at(where.strip(), condition if found else None)
        say(f"breakpoint {made.number} at {', '.join(f'pc {pc}' for pc in sorted(made.addresses))}")

    def _watch(self, text: str) -> None:
        made = self.session.watch(text)
        say(f"watch {made.number} of {made.place}")

    def _delete(self, text: str) -> None:
        if not self.session.delete(integer(text, "delete", 0)):
            raise fail("RG1305", f"there is no breakpoint or watch {text:.20}")

    # ------------------------------------------------------------------ values

    def _word(self, word: int) -> str:
        return str(self.session.machine.format.signed(word))

    def _change(self, write: Write) -> str:
        return f"{self._word(write.before)} → {self._word(write.after)}"

    def _print(self, text: str) -> None:
        mark = f" {UNSETTLED_NOTE}" if is_among(text.strip(), unsettled_names(self.session.machine)) else ""
        say(f"{text} = {shown(self.session.evaluate(text))}{mark}")

    def _set(self, text: str) -> None:
        name, equals, value = text.partition("=")
        if not equals:
            raise fail("RG1305", "set: `=` is missing", "write: set PLACE = VALUE")
        machine = self.session.machine
        word = constant(value.strip(), machine.format, machine.program.data_labels, "RG1305", "set")
        self.session.set(self.session.place(name.strip()), word)

    def _why(self, text: str) -> None:
        place = self.session.place(text)
        cause = self.session.why(place)
        for found in cause.writes:
            say(self._write(found))
        if cause.initial:
            last = self._source_of(cause.writes[-1]) if cause.writes else text
            say(f"{last} holds its value since the beginning")

    def _source_of(self, write: Write) -> str:
        return f"the place that step {write.step} exchanged into {write.place}"

    def _write(self, write: Write) -> str:
        return f"step {write.step}: {write.place}: {self._change(write)}, {self._located(write.pc)}"

    def _last_write(self, text: str) -> None:
        place: Place = self.session.place(text)
        found = self.session.last_write(place)
        say(f"{text} holds its value since the beginning" if found is None else self._write(found))

    def _backtrace(self, text: str) -> None:
        frames, whole = self.session.frames()
        for number, frame in enumerate(frames):
            say(f"#{number} {frame.procedure or 'the program'}, {self._located(frame.pc)}")
        if not whole:
            say("older calls lie too far back")

    def _list(self, text: str) -> None:
        pc, program = self.session.pc, self.session.machine.program
        for at in range(max(pc - _LISTED, 0), min(pc + _LISTED + 1, len(program.code))):
            say(f"{'→' if at == pc else ' '} {self._located(at)}")

    def _info(self, text: str) -> None:
        machine = self.session.machine
        found = self.session.variables(_ELEMENTS)
        if found:
            rows = [["variable", "value", "cotangent", "kind", "place"]]
            rows += [
                [
                    v.name, f"{self._first(v.value, v)}{f' {UNSETTLED}' * v.unsettled}", self._first(v.cotangent, v),
                    self._kind(v), str(v.place),
                ]
                for v in found
            ]  # fmt: skip
            if not machine.cotangents:
                rows = [[row[0], row[1], *row[3:]] for row in rows]
            say(columns(rows, right=(1, 2) if machine.cotangents else (1,)))
            say(f"{UNSETTLED_NOTE}\n" if any(v.unsettled for v in found) else "")
        say(registers_table(machine))
        memory = memory_table(machine)
        if memory:
            say("\n" + memory)

    def _first(self, value: object, variable: Variable) -> str:
        """A value; of a large array the first elements."""
        text = shown(value)
        return f"{text[:-1]}, …]" if isinstance(value, list) and variable.more else text

    @staticmethod
    def _kind(variable: Variable) -> str:
        axes = " × ".join(map(str, variable.shape))
        return f"{variable.kind}[{axes}]" if isinstance(variable.value, list) else variable.kind

    def _counts(self, text: str) -> None:
        found = self.session.counts()
        energy = f"{self._energy(found)} by {self.prices.technology.id}"
        say(f"{self.session.position} steps, {found.erased_bits} bits erased, {found.cycles} cycles, {energy}")
        lines = by_line(found)
        if lines:
            rows = [["line", "steps", "bits erased", "cycles", "energy"]]
            rows += [
                [str(line), f"{n.retired}", f"{n.erase_bits}", f"{n.cycles}", self._energy(n)]
                for line, n in lines.items()
            ]
            say(columns(rows, right=(1, 2, 3, 4)))

    def _energy(self, counts: Counts) -> str:
        energy = self.prices.price(counts).program
        return with_prefix(energy.nominal, "J") if isinstance(energy, Range) else "not modelled"

    def _save(self, text: str) -> None:
        save_state(text, self.session.machine, self.session.position)

    def _help(self, text: str) -> None:
        say("\n".join(summary for _, summary in self.commands.values()))
        say("short: " + ", ".join(f"{short} {name}" for short, name in _SHORT.items()))


class Prompt(cmd.Cmd):
    """The prompt of a terminal, with completion of commands and history by readline. An empty line repeats the last command."""

    prompt = "(retrograd) "

    def __init__(self, interpreter: Interpreter) -> None:
        super().__init__()
        self._interpreter = interpreter

    def onecmd(self, line: str) -> bool:
        if line == "EOF":
            say("")
            return True
        if not line.strip():
            return self.emptyline()
        self.lastcmd = line
        try:
            return self._interpreter.execute(line)
        except RetrogradError as error:
            print("\n\n".join(d.render() for d in error.diagnostics), file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted; the session stands where it was reached", file=sys.stderr)
        return False

    def completenames(self, text: str, *ignored: Any) -> list[str]:
        return [name for name in (*self._interpreter.commands, "quit") if name.startswith(text)]


# -----------------------------------------------------------------------------
# The session of a program, as options describe it: a program, a function, the way back of a gradient, an expression of VLAD.


def opened_session(options: DebugOptions) -> Session:
    """A session at the beginning, or in the state of --resume. Raises InputError, CompileError, ProgramTrap."""
    if options.program.endswith(".vlad"):
        return Session(_opened_vlad(options))
    if options.expression is not None:
        raise fail("RG0512", "--expression is for files of VLAD")
    if options.loss is not None:
        return Session(opened_way_back(options))
    machine, _ = opened(options)
    return Session(machine, 0 if options.resume is None else load_state(options.resume, machine))


def _opened_vlad(options: DebugOptions) -> Machine:
    """The machine of an expression of FILE.vlad, the first one if no number is given. Raises InputError, CompileError."""
    from retrograd.derivatives._functional import load_vlad, machine_of

    refuse_options_of_programs(options)
    if options.loss is not None:
        raise fail("RG0512", "--loss is for functions: an expression of VLAD has no arguments")
    if options.args or options.backward or options.inverse:
        raise fail("RG0512", "a file of VLAD has no arguments and no direction", "choose an expression: --expression N")
    engine_named(options.engine)
    file = load_vlad(input_path(options.program))
    number = 1 if options.expression is None else integer(options.expression, "--expression", 1)
    if number > len(file.expressions):
        raise fail("RG0507", f"--expression {number}: the file has {len(file.expressions)} expressions")
    return machine_of(
        file.expressions[number - 1],
        format=options.format or file.format,
        engine=options.engine,
        overflow=not options.no_overflow,
    )


# -----------------------------------------------------------------------------
# Recorded runs of `retrograd explore` and `retrograd trace`: their options, and the recording.


def recording_options(p: Parser) -> None:
    """The options of a recorded run."""
    p.program_argument(" or FILE.py:FUNCTION, FILE.ja[:PROCEDURE]")
    p.function_arguments()
    p.add_argument(
        "--steps", metavar="N", help="steps that are recorded at most (default: 20000; a longer run has exit code 4)"
    )
    p.add_argument(
        "--from", metavar="STEP", dest="begin", default="0", help="the step that the recording begins at (default: 0)"
    )
    p.loss_option("of a function: go on, back with cotangents, from this argument's final value")
    p.add_argument(
        "--tech", metavar="MODEL", default="landauer", help="technology model of the energy (default: landauer)"
    )
    p.run_options(
        "--format",
        "--dialect",
        "--entry",
        "--set",
        "--mem",
        "--backward",
        "--inverse",
        "--memory",
        "--memory-limit",
        "--no-overflow",
        "--strict",
    )
    p.size_options()


class RecordedOptions(RecordingOptions):
    """Options of `explore` and `trace`."""

    steps: str | None
    begin: str


def recorded(options: RecordedOptions) -> Exploration:
    """The recording that the options describe. Raises InputError, and the errors of programs and functions."""
    from retrograd.observe._explorer import explore, explored
    from retrograd.observe._timeline import STEPS

    steps = STEPS if options.steps is None else integer(options.steps, "--steps", 1)
    begin = integer(options.begin, "--from", 0)
    if options.loss is not None:
        if begin:
            raise fail("RG0510", "--from and --loss: the recording of a gradient begins at the beginning")
        f, args, keywords = gradient_of(options)
        return explore(f, *args, steps=steps, tech=options.tech, **keywords)
    machine, _ = opened(options.changed(engine="auto" if begin else "reference"))
    if begin:
        machine.run(begin)
    name = options.program.rpartition(":")[2] if is_function(options.program) else Path(options.program).name
    return explored(name, machine, steps, options.tech)


def concluded(found: Exploration, options: RecordedOptions, line: str) -> int:
    """Print the line about a recording, and how to get the rest of a run that goes on. Returns the exit code.

    A recording that ends at a number of steps that the command names is whole.
    """
    recording, line = found.recording, printable(line)
    if recording.end == "halted":
        print(line)
        return OK
    if recording.end != "limit":
        print(f"{line}; the run traps there: {recording.end}")
        return OK
    behind = recording.first + len(recording.steps)
    further = "" if options.loss is not None else f", --from {behind} the following ones"
    print(f"{line}; the run goes on: --steps N records more{further}")
    return OK if options.steps is not None else LIMIT


# -----------------------------------------------------------------------------
# `retrograd lsp`: a language server for assembly text, on standard streams.


class LspOptions(Options):
    stdio: bool


def arguments_of_lsp(p: Parser) -> None:
    """`retrograd lsp` has no options. Editors that pass `--stdio` may do so."""
    p.add_argument("--stdio", action="store_true", help="speak on standard streams (the default)")


def execute_lsp(options: LspOptions) -> int:
    """Serve one editor. Raises InputError RG0515 without pygls."""
    if importlib.util.find_spec("pygls") is None:
        raise fail("RG0515", "the package pygls is not installed", "`pip install 'retrograd[lsp]'` installs it.")
    from retrograd.observe._language_server import server

    # pygls logs requests that an editor should not have sent, with tracebacks of its own.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    # The server closes its streams when the editor ends the session; those of the command stay open.
    with (
        os.fdopen(os.dup(sys.stdin.fileno()), "rb") as requests,
        os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers,
    ):
        server().start_io(requests, answers)
    return OK


# -----------------------------------------------------------------------------
# `retrograd dap`: a Debug Adapter Protocol server for editors, on standard streams or a port of this computer.
#
# The arguments of `launch` are those of `retrograd debug` by name: `program`, `args`, `set`, `mem`, `engine`, `format`, `loss` …
# A port can be reached by every user and every web page of the computer, so a `launch` there has the token that the server prints.

_HOST = "127.0.0.1"
#: names that editors add to the arguments of `launch`
_EDITOR = frozenset(("name", "type", "request", "presentation", "preLaunchTask", "postDebugTask", "internalConsoleOptions", "debugServer", "serverReadyAction", "console", "folder", "restart"))  # fmt: skip
_TEXTS = ("program", "cwd", "engine", "format", "loss", "resume", "tech", "token")
_TRUTHS = ("noDebug", "stopOnEntry", "stopAtEnd", "backward", "inverse", "noOverflow", "strict")
_NUMBERS = ("memory", "memoryLimit", "expression")
_LISTS = ("args", "mem", "include", "set")
#: argument of `launch` -> its type in JSON; `set` may be an object as well
LAUNCH = {
    **dict.fromkeys(_TEXTS, "string"), **dict.fromkeys(_TRUTHS, "boolean"),
    **dict.fromkeys(_NUMBERS, "integer"), **dict.fromkeys(_LISTS, "array"),
}  # fmt: skip


class DapOptions(Options):
    port: str | None


def arguments_of_dap(p: Parser) -> None:
    """Options of `retrograd dap`."""
    p.add_argument(
        "--port",
        metavar="PORT",
        help="listen on a port of this computer; 0 takes a free one. `launch` must have the token that is printed",
    )
    p.size_options()


def execute_dap(options: DapOptions) -> int:
    """Serve one editor on standard streams, or editors one after the other on a port."""
    if options.port is not None:
        _serve_port(integer(options.port, "--port", 0))
        return OK
    with _own_streams() as (source, sink):
        serve(source, sink)
    return OK


def serve(source: BinaryIO, sink: BinaryIO, token: str | None = None) -> None:
    """Serve one editor until it disconnects or its stream ends. `token`: the argument of that name that `launch` must have."""
    connection = Connection(source, sink)
    folder = os.getcwd()
    try:
        with redirect_stdout(_Output(connection, "stdout")), redirect_stderr(_Output(connection, "stderr")):
            Adapter(connection, partial(launched, token=token)).serve()
    finally:
        os.chdir(folder)


@contextmanager
def _own_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Standard input and output for the protocol alone: all that prints to the descriptor of standard output goes to standard error."""
    sys.stdout.flush()
    given, own = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    # A program that reads standard input gets its end, and no message of the protocol.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    with os.fdopen(own, "wb") as sink, os.fdopen(given, "rb") as source:
        yield cast(BinaryIO, source), cast(BinaryIO, sink)


def _serve_port(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((_HOST, port))
        except (OSError, OverflowError) as error:
            raise fail("RG0507", f"--port {port}: {error}", "take another port, or 0 for a free one") from None
        listening.listen(1)
        token = secrets.token_hex(16)
        print(f"listening on {_HOST}:{listening.getsockname()[1]}\ntoken {token}", flush=True)
        while True:
            editor, _ = listening.accept()
            with editor, suppress(OSError):
                serve(editor.makefile("rb"), cast(BinaryIO, editor.makefile("wb")), token)


class _Output(io.TextIOBase):
    """A standard stream of the program's own prints, which the editor shows."""

    def __init__(self, connection: Connection, category: str) -> None:
        self._connection, self._category, self._begun = connection, category, ""

    def write(self, text: str) -> int:
        # `print` writes a text and its end; the editor gets whole lines.
        self._begun += text
        if "\n" in self._begun:
            whole, _, self._begun = self._begun.rpartition("\n")
            self._connection.output(whole + "\n", self._category)
        return len(text)

    def writable(self) -> bool:
        return True


# ---------------------------------------------------------------------- launch


def launched(given: Arguments, token: str | None = None) -> Launched:
    """The program of a `launch` request, in a session. Raises RetrogradError."""
    options = options_of(given)
    if token is not None and not secrets.compare_digest((given.maybe_text("token") or "").encode(), token.encode()):
        hint = 'add `"token": "…"` to the arguments of `launch`, with the token that `retrograd dap --port` has printed'
        raise bad_request("`token` is not that of this server", hint)
    folder = given.maybe_text("cwd")
    if folder is not None:
        try:
            os.chdir(folder)
        except (OSError, ValueError) as error:
            raise bad_request(f"`cwd` {folder[:60]}: {error}") from None
    session = opened_session(options)
    name = options.program.rpartition(":")[2] if is_function(options.program) else os.path.basename(options.program)
    return Launched(name, session, Interpreter(session, pricing_context(options.tech, session.machine.format)))


def options_of(given: Arguments) -> DebugOptions:
    """The options of `retrograd debug` for the arguments of `launch`. Raises InputError RG1306."""
    for name in given.values:
        if name not in LAUNCH and name not in _EDITOR and not name.startswith("__"):
            raise bad_request(f"`launch` has no argument `{name[:60]}`", nearest(name, LAUNCH))
    texts = {name: given.maybe_text(name) for name in _TEXTS}
    truths = {name: given.truth(name) for name in _TRUTHS}
    if texts["program"] is None:
        raise bad_request("`program` is missing: a path, or FILE.py:FUNCTION")
    if texts["program"] == "-":
        raise bad_request("`program` is a file: standard input belongs to the protocol")
    numbers = {name: str(given.integer(name)) if name in given.values else None for name in _NUMBERS}
    return DebugOptions(
        program=texts["program"], engine=texts["engine"] or "auto", format=texts["format"],
        loss=texts["loss"], resume=texts["resume"], tech=texts["tech"] or "landauer",
        args=given.texts("args"), sets=_pairs(given, "set"), mem=given.texts("mem"), include=given.texts("include"),
        memory=numbers["memory"], memory_limit=numbers["memoryLimit"], expression=numbers["expression"],
        backward=truths["backward"], inverse=truths["inverse"], no_overflow=truths["noOverflow"],
        strict=truths["strict"], script=None,
    )  # fmt: skip


def _pairs(given: Arguments, name: str) -> list[str]:
    """`set`: a list of NAME=VALUE, or an object."""
    found = given.values.get(name)
    if isinstance(found, dict):
        return [f"{key}={Arguments({'value': [value]}).texts('value')[0]}" for key, value in found.items()]
    return given.texts(name)


# -----------------------------------------------------------------------------
# `retrograd debug`: a program in a debugger that goes both ways, at a prompt or by a script.
#
# `interpreter.py` has the commands, as text in and text out. The session does the work.


class DebugOptions(RecordingOptions):
    script: str | None
    resume: str | None
    expression: str | None


def arguments_of_debug(p: Parser) -> None:
    """Options of `retrograd debug`."""
    p.program_argument(" or FILE.py:FUNCTION, FILE.ja[:PROCEDURE], FILE.vlad")
    p.function_arguments()
    p.run_options(
        "--engine", "--format", "--dialect", "--entry", "--set", "--mem", "--backward", "--inverse", "--memory", "--memory-limit",
        "--no-overflow", "--strict",
    )  # fmt: skip
    p.add_argument("-x", "--execute", metavar="FILE", dest="script", help="run the commands of a file, then end")
    p.loss_option("of a function: run it, and debug its way back with cotangents, from this argument's final value")
    p.add_argument(
        "--tech", metavar="MODEL", default="landauer", help="technology model of `counts` (default: landauer)"
    )
    p.add_argument("--resume", metavar="STATE", help="of a program: begin in a state that --save wrote")
    p.add_argument("--expression", metavar="N", help="of a file of VLAD: its N-th expression (default: 1)")
    p.size_options()


def execute_debug(options: DebugOptions) -> int:
    """Open a session and carry out its commands."""
    session = opened_session(options)
    interpreter = Interpreter(session, pricing_context(options.tech, session.machine.format))
    if options.script is None and sys.stdin is not None and sys.stdin.isatty():
        Prompt(interpreter).cmdloop()
        return OK
    return run_script(interpreter, _lines(options.script or "-"))


def _lines(path: str) -> Iterator[str]:
    return iter(read_bytes(path).decode(errors="replace").splitlines())


def run_script(interpreter: Interpreter, lines: Iterator[str]) -> int:
    """Carry out commands until `quit` or the first error, which ends the script with exit code 2."""
    for line in lines:
        try:
            if interpreter.execute(line):
                break
        except RetrogradError as error:
            return show_errors(error, as_json=False) or BAD_INPUT
    return OK


# -----------------------------------------------------------------------------
# `retrograd explore`: a page that shows a run step by step, forward and back.


class ExploreOptions(RecordedOptions):
    page: str


def arguments_of_explore(p: Parser) -> None:
    """Options of `retrograd explore`."""
    p.add_argument(
        "-o", dest="page", metavar="PAGE.html", required=True, help="the page: one file, which needs no network"
    )
    recording_options(p)


def execute_explore(options: ExploreOptions) -> int:
    """Record a run and write its page."""
    check_output(options.page)
    found = recorded(options)
    found.save(options.page, "html")
    count = len(found.recording.steps)
    line = f"{options.page}: {count} steps, {len(found.html.encode()) // 1024} KiB; open it in a browser"
    return concluded(found, options, line)


# -----------------------------------------------------------------------------
# `retrograd trace`: a recorded run for other tools: GTKWave, Surfer, Konata, Perfetto, programs.


class TraceOptions(RecordedOptions):
    written: str
    to: str | None


def arguments_of_trace(p: Parser) -> None:
    """Options of `retrograd trace`."""
    p.add_argument(
        "-o", dest="written", metavar="FILE", required=True,
        help="the trace; its suffix stands for its format: .vcd, .kanata, .pftrace (Perfetto), .json",
    )  # fmt: skip
    p.add_argument("--to", choices=("vcd", "kanata", "perfetto", "json"), help="the format, whatever the suffix")
    recording_options(p)


def execute_trace(options: TraceOptions) -> int:
    """Record a run and write it."""
    from retrograd.observe._explorer import format_of_file

    check_output(options.written)
    format = options.to or format_of_file(options.written)
    found = recorded(options)
    found.save(options.written, format)
    return concluded(found, options, f"{options.written}: {len(found.recording.steps)} steps as {format}")
