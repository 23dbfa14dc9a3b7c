"""Where the rows of sweeps are kept: a file of SQLite, each row under the hash of all that it follows from.

    sweep   schema
    rows    key, row as JSON;  program, format, arguments, technology, temperature, frequency, for whoever looks into the file

A file of something else, or of another schema, is refused and left as it is.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError

SCHEMA = "retrograd.energy-sweep/2"
#: seconds that a store waits for another process that writes into it
PATIENCE = 60.0
#: what is kept of a row: all that follows from its key
KEPT = frozenset({"technology", "version", "temperature", "frequency", "counts", "price"})

Kept = dict[str, Any]


class Store:
    """Rows in a file of SQLite, or nowhere. This process alone writes what its sweep has found, whoever runs."""

    def __init__(self, path: str | Path | None) -> None:
        self._path = path
        self._file: sqlite3.Connection | None = None
        if path is None:
            return
        try:
            self._file = sqlite3.connect(path, timeout=PATIENCE)
            problem = self._opened(self._file)
        except sqlite3.Error as error:
            problem = f"keeps no sweep: {error}"
        if problem is not None:
            self.close()
            raise InputError(Diagnostic("RG1111", f"{path} {problem}"))

    def _opened(self, file: sqlite3.Connection) -> str | None:
        """Make what a new file lacks; what is wrong with an old one."""
        with file:
            # Two that begin at once: one makes the tables, the other finds them.
            file.execute("BEGIN IMMEDIATE")
            tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not tables:
                file.execute("CREATE TABLE sweep (schema TEXT NOT NULL)")
                file.execute("INSERT INTO sweep VALUES (?)", (SCHEMA,))
                file.execute(
                    "CREATE TABLE rows (key TEXT PRIMARY KEY, program TEXT, format TEXT, arguments INTEGER, technology TEXT,"
                    " temperature REAL, frequency REAL, row TEXT NOT NULL)"
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
        """What is kept under a key."""
        if self._file is None:
            return None
        try:
            found = self._file.execute("SELECT row FROM rows WHERE key = ?", (key,)).fetchone()
            if found is None:
                return None
            row = json.loads(found[0])
            if not isinstance(row, dict) or row.keys() != KEPT:
                raise ValueError("it is no row")
        except (sqlite3.Error, ValueError) as error:
            message = f"{self._path}: the row {key[:12]}… cannot be read: {error}"
            raise InputError(Diagnostic("RG1111", message)) from None
        return row

    def keep(self, program: str, format: str, number: int, rows: Mapping[str, Kept]) -> None:
        """What a run has told, all of it or nothing, by key; beside the rows stands what they are, for whoever looks into the file."""
        if self._file is None:
            return
        what = [
            (key, program, format, number, row["technology"], row["temperature"], row["frequency"], json.dumps(row))
            for key, row in rows.items()
        ]
        try:
            with self._file:
                self._file.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?)", what)
        except sqlite3.Error as error:
            raise InputError(Diagnostic("RG1111", f"{self._path}: a row cannot be kept: {error}")) from None
