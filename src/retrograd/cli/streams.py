"""Standard streams that are closed or full.

stdout closed or full        output is lost: a short error, exit code 2
its reader has gone away     exit code 0 and no message, as with other tools
stderr closed or full        diagnostics are lost; the exit code is that of the command
stdin closed                 RG0501 for a command that reads it

With `--json` standard output holds the JSON alone: see `only_json`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO


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
