"""Measure the rows of the tables one after the other, into a store that a later run goes on with: schema retrograd.papers/1."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from retrograd.benchmarks.measure import one_core
from retrograd.benchmarks.papers.page import TABLES, Table
from retrograd.benchmarks.peers import Peer
from retrograd.benchmarks.run import machine
from retrograd.benchmarks.systems import reason_of
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.files import command, limits, write_file
from retrograd.simulator.engines.tiering import optimised_at_once

SCHEMA = "retrograd.papers/1"


def read(path: Path) -> dict[str, Any]:
    """The kept rows of a store; a new store where there is no file. Raises InputError RG1203 for a file of another kind."""
    if not path.exists():
        return {"schema": SCHEMA, "rows": {}}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(Diagnostic("RG1203", f"{path} is no store of measured tables: {error}")) from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not isinstance(found.get("rows"), dict):
        raise InputError(Diagnostic("RG1203", f"{path} is no store of measured tables: its schema is not {SCHEMA}"))
    return found


def measure(
    store: Path, tables: Sequence[Table] = TABLES, data: Path | None = None, peers: Sequence[Peer] = (), *,
    most: int | None = None, say: Callable[[str], None] = print,
) -> dict[str, Any]:  # fmt: skip
    """Measure the rows that the store lacks, at most `most`; the store is written after each. A row that fails is kept with the reason.

    Interrupted, it goes on from the next row when it is called again. Raises InputError for a store that cannot be read or written.
    """
    document = read(store)
    rows = [(t, r) for t in tables for r in t.rows(data)]
    left = [(t, r) for t, r in rows if r.measure is not None and not _kept(document, t, r.label)]
    with one_core() as core, optimised_at_once():
        present = [peer for peer in peers if not peer.absent()]
        for done, (t, r) in enumerate(left[:most]):
            say(f"{len(rows) - len(left) + done + 1} of {len(rows)}: {t.title}, {r.label}")
            assert r.measure is not None
            row: dict[str, Any] = {"date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")}
            row["machine"] = machine(core)["processor"]
            try:
                row["cells"] = r.measure(present)
            except (KeyboardInterrupt, MemoryError):
                raise
            except Exception as error:
                row |= {"cells": {}, "failed": reason_of(error)}
            document["rows"].setdefault(t.name, {})[r.label] = row
            # The store is replaced after each row, which one command may do to one file only.
            with command(limits()):
                write_file(str(store), json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return document


def _kept(document: dict[str, Any], table: Table, label: str) -> bool:
    """Whether a row is measured. A row that failed is measured again."""
    row = document["rows"].get(table.name, {}).get(label)
    return row is not None and "failed" not in row


def failed(document: dict[str, Any]) -> list[str]:
    """The rows that failed, with reasons."""
    return [
        f"{name}, {label}: {row['failed']}"
        for name, rows in document["rows"].items()
        for label, row in rows.items()
        if "failed" in row
    ]
