"""Shares of a long run that have ended, in a text file: a run that was interrupted continues with the others.

    mark number name=count … .

A line has the mark of its sources, the number of the share, and its counts. A line that was interrupted does not end in a dot, and counts
for nothing. Several processes may add lines to one file. See also `tests_module`, by which a run uses modules of the tests.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def digest(folders: Iterable[str]) -> str:
    """A digest of the Python files in folders of the project, which is the mark of their finished shares."""
    found = sha256()
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            found.update(file.read_bytes())
    return found.hexdigest()[:16]


class Store:
    """The file of finished shares; None keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def finished(self, mark: str) -> dict[int, Counter[str]]:
        """The counts of finished shares with this mark, by number."""
        done: dict[int, Counter[str]] = {}
        if self.path is None or not self.path.exists():
            return done
        for line in self.path.read_text().splitlines():
            if line.startswith(f"{mark} ") and line.endswith(" ."):
                _, number, *counts, _ = line.split()
                done[int(number)] = Counter({name: int(n) for name, n in (item.rsplit("=", 1) for item in counts)})
        return done

    def add(self, mark: str, number: int, counts: Counter[str]) -> None:
        """Add a share. Marks and names of counts have no spaces."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(" ".join([mark, str(number), *(f"{name}={n}" for name, n in counts.items()), "."]) + "\n")


def tests_module(path: str) -> Any:
    """The module of a file in tests/, such as "support/lockstep": by `module_at` of the tests."""
    sys.path.append(str(ROOT / "tests"))
    return import_module("support.files").module_at(f"tests/{path}.py")
