"""Colours of diagnostics on a terminal.

    --color always | never     in every case, in no case
    --color auto               if standard error is a terminal, TERM is not `dumb`, and NO_COLOR is unset or empty;
                               also if FORCE_COLOR is set and NO_COLOR is not

Colours are added to the rendered text line by line and change no other character: without its escape sequences the text is the
same. A rendered diagnostic has no control characters of its own, so no source can add any.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

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
