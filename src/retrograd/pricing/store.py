"""The store of sweeps: rows in a file of SQLite, each under the hash of everything that determines it.

    sweep   schema
    rows    key, row as JSON, digest of both;  program, format, arguments, technology, temperature, frequency, for people

A row with a wrong digest is damaged, and is refused. A file with other contents or another schema is refused, and left
as it is.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from retrograd.isa.diagnostics import Diagnostic, InputError

SCHEMA = "retrograd.energy-sweep/3"
#: seconds that a store waits for another process that has locked it
PATIENCE = 60.0
#: seconds between two attempts: SQLite would wait by itself, but not look at signals meanwhile
_PAUSE = 0.02
#: the exceptions of opening, reading and writing a file of SQLite: the store cannot be used
_WRONG = (sqlite3.Error, ValueError, TypeError, OverflowError, RecursionError, MemoryError)
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

Kept = dict[str, Any]
_T = TypeVar("_T")


class Store:
    """Rows in a file of SQLite, or nowhere. Only this process writes the rows of its sweep, also where an executor runs the sweep."""

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
            problem = self._patiently(self._opened)
        except _WRONG as error:
            problem = f"keeps no sweep: {error}"
        except BaseException:
            self.close()
            raise
        if problem is not None:
            self.close()
            raise self._refusal(problem)

    def _refusal(self, problem: str) -> InputError:
        return InputError(Diagnostic("RG1111", f"{self._path} {problem}"))

    def _patiently(self, act: Callable[[sqlite3.Connection], _T]) -> _T:
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

    def _opened(self, file: sqlite3.Connection) -> str | None:
        """Make the tables of a new file; return the reason if an old file is no store."""
        with file:
            # Of two processes that begin at once, one makes the tables and the other finds them.
            file.execute("BEGIN IMMEDIATE")
            tables = {str(name) for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not tables:
                file.execute("CREATE TABLE sweep (schema TEXT NOT NULL)")
                file.execute("INSERT INTO sweep VALUES (?)", (SCHEMA,))
                file.execute(
                    "CREATE TABLE rows (key TEXT PRIMARY KEY, program TEXT, format TEXT, arguments INTEGER, technology TEXT,"
                    " temperature REAL, frequency REAL, row TEXT NOT NULL, digest TEXT NOT NULL)"
                )
                return None
            if "sweep" not in tables:
                return f"keeps no sweep: its tables are {', '.join(sorted(tables))[:80]}"
            if "rows" not in tables:
                return "keeps a sweep of retrograd.energy-sweep/1, whose rows do not say for which programs and formats they are"
            schema = file.execute("SELECT schema FROM sweep").fetchone()
            if schema != (SCHEMA,):
                return f"keeps a sweep of the schema {str(schema and schema[0])[:60]}, and this is {SCHEMA}"
            return None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def row(self, key: str) -> Kept | None:
        """The row under a key. Raises InputError RG1111 for a damaged row."""
        if self._file is None:
            return None
        query = "SELECT row, digest FROM rows WHERE key = ?"
        try:
            found = self._patiently(lambda file: file.execute(query, (key,)).fetchone())
            if found is None:
                return None
            text, digest = found
            if digest != _digest(key, text):
                raise ValueError("it is not what was written")
            kept: Kept = json.loads(text)
        except _WRONG as error:
            raise self._refusal(f"has a row that cannot be read, {key[:12]}…: {error}") from None
        return kept

    def keep(self, program: str, format: str, number: int, rows: Mapping[str, Kept]) -> None:
        """Write the rows of one run by key, all or none; the other columns describe the rows to readers of the file."""
        if self._file is None:
            return
        records = []
        for key, row in rows.items():
            text = json.dumps(row)
            point = row["technology"], row["temperature"], row["frequency"]
            records.append((key, program, format, number, *point, text, _digest(key, text)))

        def write(file: sqlite3.Connection) -> None:
            with file:
                file.execute("BEGIN IMMEDIATE")
                file.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", records)

        try:
            self._patiently(write)
        except _WRONG as error:
            raise self._refusal(f"cannot keep a row: {error}") from None


def _digest(key: str, text: str) -> str:
    """The digest of a row and its key, so that a row under another key is found to be damaged."""
    return hashlib.sha256(f"{key} {text}".encode()).hexdigest()
