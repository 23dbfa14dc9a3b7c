"""Exit codes of the command line, for scripts to act on; `retrograd --help` and docs/command-line.md list them."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from retrograd import __version__
from retrograd.isa.diagnostics import Diagnostic, ErrorKind
from retrograd.isa.files import write_file

OK = 0
#: `bench`: a wrong result or a worse ratio; `hdl formal`: a claim without a proof
WRONG = 1
BAD_INPUT = 2
TRAPPED = 3
#: the limit of `--max-steps`; `explore`, `trace`: the run is longer than a recording is without `--steps`
LIMIT = 4
INTERRUPTED = 130


# -----------------------------------------------------------------------------
# Colours of diagnostics on a terminal.
#
#     --color always | never     in every case, in no case
#     --color auto               if standard error is a terminal, TERM is not `dumb`, and NO_COLOR is unset or empty;
#                                also if FORCE_COLOR is set and NO_COLOR is not
#
# Colours are added to the rendered text line by line and change no other character: without its escape sequences the text is the
# same. A rendered diagnostic has no control characters of its own, so no source can add any.

CHOICES = ("auto", "always", "never")

_choice: ContextVar[str] = ContextVar("retrograd_color", default="auto")

_BOLD, _RED, _YELLOW, _BLUE, _END = "\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[34m", "\x1b[0m"

#: the head of a line -> its colour; the rest of the line stays plain
_LINES = (
    (re.compile(r"(?:[\w ./-]+: )?error(?:\[RG\d+\])?:"), _RED),
    (re.compile(r"(?:[\w ./-]+: )?warning(?:\[RG\d+\])?:"), _YELLOW),
    (re.compile(r"note(?:\[RG\d+\])?:"), _BOLD),
    (re.compile(r" +-->.*"), _BLUE),
    (re.compile(r" +\| +\^+$"), _RED),
    (re.compile(r"  (?:why|fix):"), _BOLD),
)


@contextmanager
def colored(choice: str) -> Iterator[None]:
    """The choice of `--color` for the commands within."""
    token = _choice.set(choice)
    try:
        yield
    finally:
        _choice.reset(token)


def is_colored(stream: TextIO) -> bool:
    """Whether text on this stream has colours."""
    choice = _choice.get()
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def painted(text: str) -> str:
    """The text of diagnostics with colours.

    >>> painted("error[RG0101]: no")
    '\\x1b[1;31merror[RG0101]:\\x1b[0m no'
    """
    return "\n".join(_line(line) for line in text.split("\n"))


def _line(line: str) -> str:
    for head, color in _LINES:
        found = head.match(line)
        if found is not None:
            return f"{color}{found[0]}{_END}{line[found.end() :]}"
    return line


def print_diagnostics(text: str) -> None:
    """Print rendered diagnostics on standard error, with colours where they are shown."""
    print(painted(text) if is_colored(sys.stderr) else text, file=sys.stderr)


# -----------------------------------------------------------------------------
# The log of one command's diagnostics, which `--sarif` writes to a file.


@dataclass(frozen=True)
class Entry:
    """A diagnostic, and the file it is about where it has no span, as those of binary images."""

    diagnostic: Diagnostic
    file: str | None = None


_current: ContextVar[list[Entry] | None] = ContextVar("retrograd_findings", default=None)


@contextmanager
def logged() -> Iterator[list[Entry]]:
    """The diagnostics that are recorded within, in order. Logs nest: the innermost receives an entry."""
    entries: list[Entry] = []
    token = _current.set(entries)
    try:
        yield entries
    finally:
        _current.reset(token)


def record(found: Iterable[Diagnostic], file: str | None = None) -> None:
    """Append diagnostics to the current log; outside of `logged`, nothing happens."""
    entries = _current.get()
    if entries is not None:
        entries.extend(Entry(diagnostic, file) for diagnostic in found)


# -----------------------------------------------------------------------------
# Standard streams that are closed or full.
#
# stdout closed or full        output is lost: a short error, exit code 2
# its reader has gone away     exit code 0 and no message, as with other tools
# stderr closed or full        diagnostics are lost; the exit code is that of the command
# stdin closed                 RG0501 for a command that reads it
#
# With `--json` standard output holds the JSON alone: see `only_json`.


class _Diagnostics:
    """Standard error that discards text which it cannot write, so that a full disk does not change the exit code."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except (OSError, ValueError):
            discard(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError):
            discard(self._stream)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def discard(stream: TextIO) -> None:
    """Redirect a stream to the null device, so that the interpreter's last flush of its buffer does not fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()


def _occupy(number: int) -> bool:
    """Open the null device under a descriptor that is closed, so that no file of ours gets the number of a standard stream.

    Standard output is opened for reading, so printing fails as on the closed descriptor.
    """
    try:
        os.fstat(number)
        return False
    except OSError:
        opened = os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        os.set_inheritable(number, True)
        return True


def _text_stream(number: int) -> TextIO:
    return io.TextIOWrapper(io.BufferedWriter(io.FileIO(number, "w", closefd=False)), "utf-8")


#: the JSON of commands whose other output goes to standard error
_answers: list[list[str]] = []


def answer(text: str) -> None:
    """Print a line, or lines, of the answer of a command: the JSON of `--json`."""
    if _answers:
        _answers[-1].append(text)
    else:
        print(text)


@contextmanager
def only_json(wanted: bool) -> Iterator[None]:
    """With `wanted`, standard output gets the texts of `answer` alone, at the end; all other text goes to standard error.

    A file of functions may print when it is loaded, and an `rg.external` block when it runs; so may processes that run a part of the
    work, and libraries in C. Therefore the descriptor is redirected, too.
    """
    if not wanted:
        yield
        return
    out = sys.stdout
    _answers.append([])
    out.flush()
    number = _descriptor(out)
    moved = os.dup(number) if number == 1 else None
    if moved is not None:
        os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = out
        if moved is not None:
            with suppress(OSError, ValueError):
                out.flush()  # of code that has kept the stream
            os.dup2(moved, 1)
            os.close(moved)
        for text in _answers.pop():
            print(text)


def _descriptor(stream: TextIO) -> int | None:
    """The number of a stream's file; None for a stream of another kind."""
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None


@contextmanager
def standard_streams() -> Iterator[None]:
    """Give `sys.stdout` and `sys.stderr` streams for printing, also if the shell has closed them."""
    before = sys.stdout, sys.stderr
    for number in range(3):
        _occupy(number)
    # Python sets a stream that is closed at its start to None, and `print` to None is silent.
    if sys.stdout is None:
        sys.stdout = _text_stream(1)
    if sys.stderr is None:
        sys.stderr = _text_stream(2)
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal lacks is replaced by another.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.stderr = _Diagnostics(sys.stderr)
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except (OSError, ValueError):
            discard(sys.stdout)
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


# -----------------------------------------------------------------------------
# Diagnostics as SARIF 2.1.0, the format of code scanners: GitHub, editors, dashboards.
#
# A run has a rule for each code that occurs, with its title, reason and fix, and a result for each diagnostic with its region.
# Source: Static Analysis Results Interchange Format (SARIF) Version 2.1.0, OASIS Standard, 2020.

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = ("error", "warning", "note")


def sarif(entries: Sequence[Entry]) -> dict[str, Any]:
    """A log with one run. Each diagnostic is a result, in order; a command without findings has no results.

    >>> sarif([])["runs"][0]["results"]
    []
    """
    kinds = list({entry.diagnostic.code: entry.diagnostic.kind for entry in entries}.values())
    codes = [kind.code for kind in kinds]
    driver = {"name": "retrograd", "version": __version__, "rules": [_rule(kind) for kind in kinds]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(entry, codes.index(entry.diagnostic.code)) for entry in entries],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def write_sarif(path: str, entries: Sequence[Entry]) -> None:
    """Write the log to a file, for "-" to standard output. Raises InputError RG0501, RG0513."""
    text = json.dumps(sarif(entries), indent=2) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        write_file(path, text)


def _rule(kind: ErrorKind) -> dict[str, Any]:
    return {
        "id": kind.code,
        "shortDescription": {"text": kind.title},
        "fullDescription": {"text": kind.why},
        "help": {"text": kind.fix},
    }


def _result(entry: Entry, index: int) -> dict[str, Any]:
    d = entry.diagnostic
    out: dict[str, Any] = {
        "ruleId": d.code,
        "ruleIndex": index,
        "level": d.severity if d.severity in _LEVELS else "note",
        "message": {"text": f"{d.message}\n{d.hint or d.kind.fix}"},
    }
    file = entry.file if d.span is None else d.span.file
    if file is not None:
        place: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
        if d.span is not None:
            line, column = max(1, d.span.line), max(1, d.span.column)
            place["region"] = {"startLine": line, "startColumn": column, "endColumn": max(column, d.span.end)}
            if d.line is not None:
                place["region"]["snippet"] = {"text": d.line}
        out["locations"] = [{"physicalLocation": place}]
    return out


def _uri(file: str) -> str:
    """A relative reference for a relative path, a file URI for an absolute path."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
