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
from collections.abc import Mapping
from typing import Any

from retrograd.distribution.stores import WRONG, StoreFile, tables_of

SCHEMA = "retrograd.energy-sweep/3"

Kept = dict[str, Any]


class Store(StoreFile):
    """Rows in a file of SQLite, or nowhere. Only this process writes the rows of its sweep, also where an executor runs the sweep."""

    code = "RG1111"
    contents = "sweep"

    def opened(self, file: sqlite3.Connection) -> str | None:
        """Make the tables of a new file; return the reason if an old file is no store."""
        with file:
            # Of two processes that begin at once, one makes the tables and the other finds them.
            file.execute("BEGIN IMMEDIATE")
            tables = tables_of(file)
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

    def row(self, key: str) -> Kept | None:
        """The row under a key. Raises InputError RG1111 for a damaged row."""
        if not self:
            return None
        query = "SELECT row, digest FROM rows WHERE key = ?"
        try:
            found = self.patiently(lambda file: file.execute(query, (key,)).fetchone())
            if found is None:
                return None
            text, digest = found
            if digest != _digest(key, text):
                raise ValueError("it is not what was written")
            kept: Kept = json.loads(text)
        except WRONG as error:
            raise self.refusal(f"has a row that cannot be read, {key[:12]}…: {error}") from None
        return kept

    def keep(self, program: str, format: str, number: int, rows: Mapping[str, Kept]) -> None:
        """Write the rows of one run by key, all or none; the other columns describe the rows to readers of the file."""
        if not self:
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
            self.patiently(write)
        except WRONG as error:
            raise self.refusal(f"cannot keep a row: {error}") from None


def _digest(key: str, text: str) -> str:
    """The digest of a row and its key, so that a row under another key is found to be damaged."""
    return hashlib.sha256(f"{key} {text}".encode()).hexdigest()
