"""Results of tasks in a file of SQLite, each under the hash of everything that determines it.

    tasks   schema
    kept    key, result in bytes, digest of both

A result with a wrong digest is damaged, and its task is run again. A file with other contents or another schema is refused, and left
as it is. A result is written whole or not at all, so a process may be killed at any time.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from retrograd.isa.diagnostics import Diagnostic, InputError

SCHEMA = "retrograd.tasks/1"
#: seconds that a store waits for another process that has locked it
PATIENCE = 60.0
#: seconds between two attempts: SQLite would wait by itself, but not look at signals meanwhile
_PAUSE = 0.02
#: the exceptions of opening, reading and writing a file of SQLite: the store cannot be used
WRONG = (sqlite3.Error, ValueError, TypeError, OverflowError, RecursionError, MemoryError)
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

_T = TypeVar("_T")


class StoreFile:
    """A file of SQLite with tables of one schema, or no file at all. Only this process writes the results of its work."""

    #: the kind of error of a file that is no such store, and the contents that it should have
    code = "RG1506"
    contents = "results of tasks"

    def __init__(self, path: str | Path | None) -> None:
        self._path = path
        self._file: sqlite3.Connection | None = None
        if path is None:
            return
        try:
            # Absolute: SQLite has names that stand for no file, such as :memory:
            place = Path(path).absolute()
            if place.exists() and not place.is_file():
                raise ValueError("it is no file")
            self._file = sqlite3.connect(place, timeout=0)
            problem = self.patiently(self.opened)
        except WRONG as error:
            problem = f"keeps no {self.contents}: {error}"
        except BaseException:
            self.close()
            raise
        if problem is not None:
            self.close()
            raise self.refusal(problem)

    def opened(self, file: sqlite3.Connection) -> str | None:
        """Make the tables of a new file; return the reason if an old file is no store."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        """Whether there is a file."""
        return self._file is not None

    def refusal(self, problem: str) -> InputError:
        """The error of a file that cannot be used."""
        return InputError(Diagnostic(self.code, f"{self._path} {problem}"))

    def patiently(self, act: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `act` as soon as no other process has locked the file. Raises sqlite3.OperationalError after `PATIENCE`."""
        assert self._file is not None
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return act(self._file)
            except sqlite3.OperationalError as error:
                # The lowest byte is the kind of error, the other bytes its details.
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _LOCKED or time.monotonic() >= end:
                    raise
            time.sleep(_PAUSE)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def tables_of(file: sqlite3.Connection) -> set[str]:
    """The names of the tables."""
    return {str(name) for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


class TaskStore(StoreFile):
    """Results of tasks by key."""

    def opened(self, file: sqlite3.Connection) -> str | None:
        """Make the tables of a new file; return the reason if an old file is no store."""
        with file:
            # Of two processes that begin at once, one makes the tables and the other finds them.
            file.execute("BEGIN IMMEDIATE")
            tables = tables_of(file)
            if not tables:
                file.execute("CREATE TABLE tasks (schema TEXT NOT NULL)")
                file.execute("INSERT INTO tasks VALUES (?)", (SCHEMA,))
                file.execute("CREATE TABLE kept (key TEXT PRIMARY KEY, result BLOB NOT NULL, digest TEXT NOT NULL)")
                return None
            if not {"tasks", "kept"} <= tables:
                return f"keeps no {self.contents}: its tables are {', '.join(sorted(tables))[:80]}"
            schema = file.execute("SELECT schema FROM tasks").fetchone()
            if schema != (SCHEMA,):
                return f"keeps tasks of the schema {str(schema and schema[0])[:60]}, and this is {SCHEMA}"
            return None

    def result(self, key: str) -> bytes | None:
        """The result under a key; None where there is none, or a damaged one. Raises InputError RG1506."""
        if not self:
            return None
        query = "SELECT result, digest FROM kept WHERE key = ?"
        try:
            found = self.patiently(lambda file: file.execute(query, (key,)).fetchone())
        except WRONG as error:
            raise self.refusal(f"cannot be read: {error}") from None
        if found is None or not isinstance(found[0], bytes) or found[1] != _digest(key, found[0]):
            return None
        return found[0]

    def keep(self, key: str, result: bytes) -> None:
        """Write a result, whole or not at all. Raises InputError RG1506."""
        if not self:
            return

        def write(file: sqlite3.Connection) -> None:
            with file:
                file.execute("BEGIN IMMEDIATE")
                file.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (key, result, _digest(key, result)))

        try:
            self.patiently(write)
        except WRONG as error:
            raise self.refusal(f"cannot keep a result: {error}") from None


def _digest(key: str, result: bytes) -> str:
    """The digest of a result and its key, so that a result under another key is found to be damaged."""
    return hashlib.sha256(key.encode() + result).hexdigest()
