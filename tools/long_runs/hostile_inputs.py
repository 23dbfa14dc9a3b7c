"""Give every reader damaged and hostile inputs, by shares that can be continued.

    python tools/long_runs/hostile_inputs.py --count 200000 --store build/hostile-inputs.txt

    either   an input is read, and its program is run for a while
    or       it is refused by a RetrogradError

An input is a valid seed with a few changes, so it has two parts: the valid one before the first change, and the rest. It counts as `late`
where the reader refuses it and the valid part is at least half of the seed. A fault is any other exception, a control character in a message
or on a stream of a command, processor time above `allowed`, or the end of the process. Each is printed with its reader and seed, and the
command ends with 1, as it does where fewer than `LEAST` of the inputs of a reader are accepted or late.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import json
import linecache
import logging
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.context import BaseContext
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import damage
import numpy as np
import valid_inputs as valid
from retrograd.assembler import verify
from retrograd.assembler.pisa_reader import MEMORY
from retrograd.assembler.pisa_reader import read as read_pisa
from retrograd.compiler.frontends.janus.parser import read as read_janus
from retrograd.compiler.frontends.vlad.translation import read_vlad
from retrograd.hdl.reversible.formats import read_real
from retrograd.hdl.reversible.openqasm import read_qasm
from retrograd.isa.diagnostics import RetrogradError
from retrograd.isa.files import Limits, command
from retrograd.isa.words import Format
from retrograd.simulator.energy.gates import load_activity, load_gates
from retrograd.simulator.energy.pricing import pricing_context
from retrograd.simulator.energy.technology import from_text, quantity
from shares import Store, digest

import retrograd as rg
from retrograd.cli.arguments import parse_arguments, read_array, read_arrays
from retrograd.cli.commands.debugging import Interpreter, serve
from retrograd.cli.files import Region, read_words
from retrograd.cli.main import main as command_line
from retrograd.derivatives._functional import evaluations, shown
from retrograd.observe._language_server import Document
from retrograd.observe._server import framed
from retrograd.observe._timeline import load_state
from retrograd.runtime._reversible import JanusFunction

SHARE = 500
#: folders whose files decide the outcome
SOURCES = ("isa", "assembler", "compiler", "simulator", "hdl", "src", "tools/long_runs")
STEPS = 300
#: share of the inputs of a reader that must be accepted or late: a reader that refuses all seeds at once is not tried
LEAST = 0.1
#: seconds of an input; the process that is not back after twice the time, as where no Python runs, is ended
LONGEST = 120.0
#: a server without threads forks the processes: a copy of a process with threads may stand still
CONTEXT: BaseContext = multiprocessing.get_context("forkserver")

Text = str | bytes


class Reader(NamedTuple):
    """A reader, its valid inputs, and one in how many inputs of a run is its own.

    `read` returns the text that is printed of an input, if any. It raises RetrogradError for an input that is refused.
    """

    weight: int
    seeds: Callable[[], list[Any]]
    changed: Callable[[Any, random.Random], Any]
    read: Callable[[Any], str | None]


def allowed(data: object) -> float:
    """Seconds of processor time that an input may take."""
    size = len(data) if isinstance(data, str | bytes) else len(repr(data))
    return 3.0 + 50e-6 * size


# ---------------------------------------------------------------------- readers


def _run(program: rg.Program) -> None:
    """Verify, and run for a while, forward and back."""
    verify.findings(program, strict=True)
    rg.verify(program)
    _execute(program, 1 << 12)


def _execute(program: rg.Program, memory: int) -> None:
    """Run for a while, forward and back, in at most `memory` words."""
    machine = rg.Machine(program, memory_limit=memory)
    with contextlib.suppress(rg.Trap):
        machine.run(STEPS)
    with contextlib.suppress(rg.Trap):
        machine.run_back(STEPS)


def run_assembly(text: str) -> str:
    program = rg.assemble(text, check=False)
    printed: str = rg.disassemble(program)
    _run(program)
    return printed


def run_image(data: bytes) -> str:
    program = rg.from_image(data)
    printed: str = rg.disassemble(program)
    _run(program)
    return printed


def run_pisa(text: str) -> str:
    """The reader has checked the branches: a jump to a computed target, which the verifier refuses, is usual in PISA."""
    program = read_pisa(text, name="x.pisa")
    printed: str = "\n".join(str(d) for d in verify.findings(program)) + rg.disassemble(program)
    # Each program in PISA has MEMORY words.
    _execute(program, MEMORY)
    return printed


def run_janus(text: str, dialect: str) -> None:
    tree = read_janus(text, "x.ja", dialect)
    for procedure in tree.procedures[-2:]:
        f = JanusFunction(tree, procedure.name)
        if not f.parameters:
            rg.run(f, max_steps=STEPS * 10, engine="reference")
        elif not f.entry.procedure.parameters:
            f.compiled()


def run_vlad(text: str) -> str:
    found = evaluations(read_vlad(text, "x.vlad"), engine="reference", max_steps=STEPS * 100)
    return "\n".join(shown(e.value) for e in found)


class Elsewhere(Exception):
    """Refused by Python, and not by a reader of this package."""


def _defined(text: str) -> dict[str, Any]:
    """The names that a text defines, `f` among them. Raises Elsewhere where Python refuses the text, or it has no such function."""
    name = "<hostile>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    made = sys.modules["hostile"] = ModuleType("hostile")
    space = vars(made)
    try:
        exec(compile(text, name, "exec"), space)
    except RetrogradError:
        raise
    except Exception:
        raise Elsewhere from None
    if not hasattr(space.get("f"), "parameters"):
        raise Elsewhere
    return space


def run_python(text: str) -> None:
    space = _defined(text)
    f = space["f"]
    arguments = space.get("ARGUMENTS")
    if not isinstance(arguments, list) or not all(isinstance(given, tuple) for given in arguments):
        raise Elsewhere
    for given in arguments[:1]:
        result = rg.run(f, *given, max_steps=STEPS * 10)
        rg.run(~f, *result.values, max_steps=STEPS * 10)


def run_functional(text: str) -> None:
    space = _defined(f"import retrograd as rg\nfrom retrograd import fixed\n\n\n@rg.functional\n{text}")
    rg.run(space["f"], 1.5, 0.25, max_steps=STEPS * 10)


def _accepted(reads: Iterable[Callable[[], object]]) -> None:
    """Whether one of several readers accepts an input.

    Raises the refusal that knows most about it, each of which is printable.
    """
    refused: list[RetrogradError] = []
    for read in reads:
        try:
            read()
            return
        except RetrogradError as error:
            _printable(str(error))
            refused.append(error)
    # A reader of another schema says only that it is another.
    raise next((error for error in refused if "schema" not in str(error)), refused[0])


def read_document(text: str) -> None:
    Path("x.json").write_text(text, encoding="utf-8", errors="surrogatepass")
    _accepted(
        (
            lambda: load_state("x.json", valid.machine()),
            lambda: load_gates(Path("x.json")).cells(),
            lambda: load_activity(Path("x.json")),
        )
    )


def read_arrays_of(data: bytes) -> None:
    path = Path("x.npz" if data[:1] == b"P" else "x.npy")
    path.write_bytes(data)
    with command(Limits(expanded=1 << 24)):
        found = read_array(str(path)) if path.suffix == ".npy" else read_arrays(str(path))
        for array in found.values() if isinstance(found, dict) else [found]:
            array.tolist()


def read_quantity(text: str) -> None:
    """A format, or a quantity of any kind."""
    of_kinds = (partial(quantity, text, kind, kind) for kind in ("temperature", "frequency", "resistance"))
    _accepted([lambda: Format.named(text), *of_kinds])


def read_arguments(words: tuple[str, ...]) -> None:
    parse_arguments(list(words))


def read_region(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        region = Region.parse(text, valid.machine().program, "--mem")
        read_words(region, valid.machine().format)


def debug(lines: tuple[str, ...]) -> str:
    from retrograd.observe._session import Session

    found = rg.Machine(valid.machine().program, memory_limit=4096)
    interpreter = Interpreter(Session(found), pricing_context("landauer", found.format))
    refused: RetrogradError | None = None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for line in lines:
            try:
                if line.lstrip().startswith("save"):
                    continue
                interpreter.execute(line)
            except RetrogradError as error:
                refused = error
                _printable(str(error))
    _printable(printed.getvalue())
    if refused is not None:
        raise refused
    return printed.getvalue()


class Foreign(Exception):
    """An exception that was printed, answered or logged, and not raised."""


def _stream(messages: tuple[str, ...]) -> bytes:
    """The messages with their headers, as a client sends them; `_bodies` reads the answers."""
    encoded = (text.encode("utf-8", "surrogatepass") for text in messages)
    return b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in encoded)


def adapt(messages: tuple[str, ...]) -> None:
    """A session of the Debug Adapter Protocol; a response without success is a refusal."""
    answers = io.BytesIO()
    raised: list[Any] = []
    before, threading.excepthook = threading.excepthook, raised.append
    try:
        serve(io.BytesIO(_stream(messages) + framed({"seq": 99, "type": "request", "command": "disconnect"})), answers)
    finally:
        threading.excepthook = before
    if raised:
        raise Foreign(f"in a thread: {raised[0].exc_value!r}")
    refused = ""
    for body in _bodies(answers.getvalue()):
        _printable_document(body)
        refused = refused or (body.get("message", "") if body.get("success") is False else "")
    if refused:
        raise rg.RetrogradError()


def _bodies(data: bytes) -> Iterator[dict[str, Any]]:
    at = 0
    for found in re.finditer(rb"Content-Length: (\d+)\r\n(?:[^\r\n]+\r\n)*\r\n", data):
        if found.start() >= at:
            at = found.end() + int(found[1])
            yield json.loads(data[found.end() : at])


def serve_editor(messages: tuple[str, ...]) -> None:
    """A session of the Language Server Protocol. An error of ours, or one of the protocol for a wrong message, is a refusal."""
    from retrograd.observe._language_server import server

    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)
    answers = io.BytesIO()
    answers.close = lambda: None  # type: ignore[method-assign]
    server().start_io(io.BytesIO(_stream(messages)), answers)
    answered = 0
    for body in _bodies(answers.getvalue()):
        fault = body.get("error")
        if fault is not None and fault.get("code") == -32603:
            raise Foreign(f"internal error: {str(fault)[:600]}")
        answered += "result" in body
        _printable_document({**body, "error": None})
    if answered < 6:
        raise rg.RetrogradError()


def analyse(text: str) -> str | None:
    """The analysis of a text in an editor, at every eighth character."""
    document = Document(text, "p.rga")
    said = [d.render() for d in document.findings]
    said += [s.name for s in document.symbols]
    lines = text.split("\n")
    for number, line in list(enumerate(lines))[:: max(1, len(lines) // 8)]:
        for column in range(0, min(len(line), 80) + 1, 8):
            document.definition(number, column)
            document.references(number, column)
            said.append(document.hover(number, column) or "")
    _printable("\n".join(said))
    if document.findings:
        raise rg.RetrogradError()
    return None


def highlight(text: str) -> None:
    from retrograd.observe import lexers

    for lexer in (lexers.AssemblyLexer(), lexers.JanusLexer(), lexers.VladLexer()):
        list(lexer.get_tokens(text))


def run_command(seed: tuple[str, ...]) -> str:
    """A command on its file; any exit code but 0 is a refusal."""
    words, text = seed
    given = words.split()
    name = re.search(r"x\.\w+", words)
    assert name is not None
    Path(name[0]).write_bytes(text.encode("latin-1") if "rgx" in words else text.encode("utf-8", "surrogatepass"))
    printed = commanded(given)
    for picture in ("g.svg", "e.html", "t.vcd"):
        if picture in words and Path(picture).exists():
            _printable(Path(picture).read_bytes().decode("utf-8"))
            Path(picture).unlink()
    return printed


def commanded(words: list[str]) -> str:
    """The text that a command prints. Raises RetrogradError for an exit code other than 0."""
    shown = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
    errors = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(errors):
        try:
            code = command_line(words)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
    shown.seek(0)
    printed = shown.read() + errors.getvalue()
    if "Traceback (most recent" in printed:
        raise Foreign(printed[-1500:])
    _printable(printed)
    if code:
        raise rg.RetrogradError()
    return printed


def run_words(words: tuple[str, ...]) -> str:
    # Commands that measure, serve, or wait for an editor.
    if words[:1] and words[0] in ("bench", "hdl", "demo", "devices", "dap", "lsp", "debug"):
        raise rg.RetrogradError()
    return commanded(list(words))


READERS: dict[str, Reader] = {
    "assembly": Reader(24, valid.assembly, damage.changed_text, run_assembly),
    "image": Reader(24, valid.images, damage.changed_image, run_image),
    "PISA": Reader(14, valid.pisa, damage.changed_text, run_pisa),
    "Janus of Jana": Reader(10, lambda: valid.janus(None), damage.changed_text, lambda t: run_janus(t, "jana")),
    "Janus of 1982": Reader(8, lambda: valid.janus("1982"), damage.changed_text, lambda t: run_janus(t, "1982")),
    "VLAD": Reader(4, valid.vlad, damage.changed_text, run_vlad),
    "reversible Python": Reader(6, valid.python, damage.changed_python, run_python),
    "functional Python": Reader(5, lambda: valid.FUNCTIONAL, damage.changed_python, run_functional),
    ".real": Reader(16, lambda: valid.REAL, damage.changed_text, lambda t: _nothing(read_real(t, "x.real"))),
    "QASM": Reader(16, lambda: valid.QASM, damage.changed_text, lambda t: _nothing(read_qasm(t, "x.qasm"))),
    "technology": Reader(10, valid.models, damage.changed_text, lambda t: _nothing(from_text(t, "x.toml"))),
    "arrays": Reader(16, valid.arrays, damage.changed_bytes, read_arrays_of),
    "documents": Reader(12, valid.documents, damage.changed_document, read_document),
    "quantities": Reader(8, lambda: valid.QUANTITIES, damage.changed_text, read_quantity),
    "arguments": Reader(8, lambda: valid.ARGUMENTS, damage.changed_words, read_arguments),
    "memory files": Reader(4, lambda: valid.REGIONS, damage.changed_text, read_region),
    "debugger": Reader(4, lambda: valid.DEBUGGING, damage.changed_words, debug),
    "debug adapter": Reader(3, valid.debug_adapter, damage.changed_words, adapt),
    "language server": Reader(1, valid.language_server, damage.changed_words, serve_editor),
    "editor's analysis": Reader(4, valid.assembly, damage.changed_text, analyse),
    "highlighting": Reader(
        3, lambda: [valid.ASSEMBLY, *valid.vlad()[:3], *valid.janus(None)[:3]], damage.changed_text, highlight
    ),
    "command lines": Reader(3, lambda: valid.WORDS, damage.changed_words, run_words),
    "commands on files": Reader(6, valid.files, damage.changed_file, run_command),
}


def _nothing(value: object) -> None:
    """Not printed."""


# ---------------------------------------------------------------------- checks


class Unprintable(Exception):
    """A control character in a printed text."""


class Hangs(BaseException):
    """An input takes longer than it may."""


def _printable(text: str) -> None:
    if text.isprintable():
        return
    for k, c in enumerate(text):
        if not c.isprintable() and c not in "\n\t\xa0":
            raise Unprintable(f"{c!a} in {text[max(0, k - 80) : k + 40]!a}")


#: parts of a message that editors do not show as messages: the text of the user's file, and words of the request
ECHOED = ("content", "command", "uri", "path", "method", "id", "data")


def _printable_document(value: Any) -> None:
    """Every text of a message to an editor."""
    match value:
        case str():
            _printable(value)
        case dict():
            for name, inner in value.items():
                if name not in ECHOED:
                    _printable_document(inner)
        case list():
            for inner in value:
                _printable_document(inner)


@contextlib.contextmanager
def limited(data: object) -> Iterator[None]:
    """Interrupt a reader that takes more processor time than it may, or two minutes."""

    began = time.thread_time()

    def stop(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGPROF and time.thread_time() - began < allowed(data):
            # Other threads make code of earlier inputs: their time is not the reader's.
            return
        raise Hangs(f"signal {number}")

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, allowed(data)), (signal.SIGALRM, signal.ITIMER_REAL, LONGEST))
    for which, timer, seconds in timers:
        signal.signal(which, stop)
        # Again: code that catches every exception goes on after the first.
        signal.setitimer(timer, seconds, 5.0)
    faulthandler.dump_traceback_later(2 * LONGEST, exit=True, file=sys.__stderr__ or 2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for _, timer, _ in timers:
            signal.setitimer(timer, 0)


def tried(name: str, seed: int) -> tuple[str, Any]:
    """(accepted, late, early, elsewhere or the text of a fault; the input)."""
    reader = READERS[name]
    chance = random.Random(f"{name} {seed}")
    seed_input = chance.choice(reader.seeds())
    data = reader.changed(seed_input, chance)
    try:
        with limited(data), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            printed = reader.read(data)
            if printed:
                _printable(printed)
    except RetrogradError as error:
        try:
            for d in error.diagnostics:
                _printable(d.render())
            _printable(str(error))
        except Unprintable as fault:
            return f"fault: {fault}", data
        return ("late" if damage.valid_part(seed_input, data) >= 0.5 else "early"), data
    except Elsewhere:
        return "elsewhere", data
    except BaseException as fault:
        if isinstance(fault, KeyboardInterrupt):
            raise
        where = "".join(traceback.format_exception(fault)[-4:])
        return f"fault: {type(fault).__name__}: {where}", data
    return "accepted", data


@contextlib.contextmanager
def in_folder() -> Iterator[None]:
    """A folder to stand in, with a program, a function, arrays, and no cache."""
    before, cache = os.getcwd(), os.environ.get("RETROGRAD_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["RETROGRAD_CACHE"] = ""
        Path("p.rga").write_text(valid.ASSEMBLY)
        Path("f.py").write_text(valid.FUNCTION)
        Path("words.txt").write_text("1 2 0x1f -3\n")
        Path("bytes.bin").write_bytes(bytes(range(12)))
        np.save("x.npy", np.array([1.5, 2.5]))
        try:
            yield
        finally:
            os.chdir(before)
            if cache is None:
                del os.environ["RETROGRAD_CACHE"]
            else:
                os.environ["RETROGRAD_CACHE"] = cache


def examined(name: str, first: int, count: int) -> tuple[Counter[str], list[str]]:
    """The counts of inputs of a reader, and its faults."""
    went: Counter[str] = Counter()
    faults = []
    with in_folder():
        for seed in range(first, first + count):
            outcome, data = tried(name, seed)
            went[outcome.partition(":")[0]] += 1
            if outcome.startswith("fault"):
                faults.append(f"tried({name!r}, {seed}): {outcome}\n{data!a:.1500}")
    return went, faults


def in_process(share: tuple[str, int, int]) -> tuple[Counter[str], list[str]]:
    """`examined` in a process of its own, whose end is a fault of this share alone."""
    name, first, count = share
    try:
        with ProcessPoolExecutor(1, CONTEXT) as pool:
            return pool.submit(examined, *share).result()
    except BrokenProcessPool:
        return Counter(fault=1), [f"{name}: the process of the inputs {first} … {first + count - 1} ended"]


def tried_in_depth(went: Counter[str]) -> bool:
    """Whether enough inputs of a reader came past its first lines."""
    return went["accepted"] + went["late"] >= LEAST * sum(went.values())


def shares(count: int, first: int, only: str | None = None) -> list[tuple[str, int, int]]:
    """(reader, first seed, number) of the shares of a run over all readers by their weights, or over one."""
    weights = {name: r.weight for name, r in READERS.items() if only in (None, name)}
    total = sum(weights.values())
    return [
        (name, first + k, min(SHARE, n - k))
        for name, weight in weights.items()
        for n in [-(-count * weight // total)]
        for k in range(0, n, SHARE)
    ]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=200_000, help="inputs (default: 200000)")
    p.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    p.add_argument("--only", choices=list(READERS), metavar="READER", help="one reader, which gets all of the inputs")
    p.add_argument("--store", type=Path, help="the file of finished shares")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one a core)")
    options = p.parse_args()
    mark, store = digest(SOURCES), Store(options.store)
    done = store.finished(mark)
    every = shares(options.count, options.seed, options.only)
    totals: dict[str, Counter[str]] = {}
    wrong = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = {}
        for share in every:
            number = zlib.crc32(repr(share).encode())
            if number in done:
                totals.setdefault(share[0], Counter()).update(done[number])
            else:
                futures[pool.submit(in_process, share)] = share, number
        for future in as_completed(futures):
            share, number = futures[future]
            went, faults = future.result()
            totals.setdefault(share[0], Counter()).update(went)
            wrong += len(faults)
            print(*faults, sep="\n", end="\n" if faults else "", flush=True)
            if not faults:
                store.add(mark, number, went)
    for name, went in totals.items():
        print(
            f"{name:20} {sum(went.values()):7} inputs: "
            + ", ".join(f"{went[k]} {k}" for k in ("accepted", "late", "early", "elsewhere", "fault") if went[k])
        )
    total = sum(totals.values(), Counter[str]())
    print(
        f"{sum(total.values())} inputs, {total['accepted']} accepted, {total['late']} damaged late, {total['early']} refused early, {wrong} faults"
    )
    untried = [name for name, went in totals.items() if not tried_in_depth(went)]
    if untried:
        print(f"less than {LEAST:.0%} accepted or late: {', '.join(untried)}")
    return 1 if wrong or untried else 0


if __name__ == "__main__":
    sys.exit(main())
