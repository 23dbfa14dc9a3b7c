"""Diagnostics as SARIF 2.1.0, the format of code scanners: GitHub, editors, dashboards.

A run has a rule for each code that occurs, with its title, reason and fix, and a result for each diagnostic with its region.
Source: Static Analysis Results Interchange Format (SARIF) Version 2.1.0, OASIS Standard, 2020.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from retrograd import __version__
from retrograd.cli.findings.log import Entry
from retrograd.isa.diagnostics import ErrorKind
from retrograd.isa.files import write_file

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
