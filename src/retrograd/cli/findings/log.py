"""The log of one command's diagnostics, which `--sarif` writes to a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from retrograd.isa.diagnostics import Diagnostic


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
