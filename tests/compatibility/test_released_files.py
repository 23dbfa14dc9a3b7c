"""Files of released versions are read with the same results, and documents keep the fields that they had.

docs/support.md says which files later versions read. `python tests/compatibility/test_released_files.py` keeps the
documents and the results of this version in the folder of its name, beside the files that were put there by hand;
kept results are not written again.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import retrograd
from retrograd.cli.main import main

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.iterdir() if (path / "documents.json").is_file())
NORM, ARGUMENTS = "functions.py:norm", ["0.0", "2", "[1.0, 2.0, 3.0]"]

#: name -> a command that prints a document
DOCUMENTS = {
    "assembled": ["run", "program.rga", "--set", "r4=1"],
    "call": ["run", NORM, *ARGUMENTS],
    "batch": ["run", NORM, "--batch", "batch.npz"],
    "gradient": ["grad", NORM, *ARGUMENTS, "--loss", "out"],
    "verified": ["verify", "program.rga"],
    "refused": ["verify", "wrong.rga"],
    "energy": ["energy", "program.rga"],
    "compared": ["energy", "program.rga", "--compare", "landauer,cmos45"],
    "priced": ["energy", "program.rga", "--tech", "technology.toml"],
    "measured": [
        "energy",
        "q8_4.rgx",
        "--gates",
        "gates.json",
        "--activity",
        "activity.json",
        "--tech",
        "cmos_switching",
    ],
    "models": ["energy", "--models"],
    "sweep": ["sweep", "functions.py:halved", "--args", "5", "0", "--temperature", "4K,300K"],
    "instructions": ["isa"],
    "loops": ["compile", NORM, "--report"],
    "ranges": ["ranges", NORM, *ARGUMENTS],
    "points": ["ranges", NORM, *ARGUMENTS, "--points"],
    "entropy": ["entropy", "functions.py:halved", "x=0..7", "lost=0"],
    "netlist": ["gates", "swap", "--format", "4,2"],
    "priced-netlist": ["gates", "swap", "--format", "4,2", "--tech", "landauer"],
    "equal-netlists": ["gates", "check", "swap.real", "swap.real"],
    "core": ["hdl", "run", "q8_4.rgx"],
    "registers": ["hdl", "registers"],
}
#: a command that reads a kept file
READINGS = {
    "q64_32": ["run", "q64_32.rgx"],
    "q16_8": ["run", "q16_8.rgx"],
    "q8_4": ["run", "q8_4.rgx"],
    "state": ["run", "q16_8.rgx", "--resume", "state.json"],
    "text": ["run", "program.rga"],
    "binary points": ["run", "points.rgx"],
    "compiled": ["run", "norm.rgx"],
    "batch": ["run", NORM, "--batch", "batch.npz", "--store", "tasks.db"],
    "sweep": ["sweep", "functions.py:halved", "--args", "5", "0", "--store", "sweep.db"],
}


def printed(version: str, folder: Path, arguments: list[str]) -> Any:
    """What a command prints as JSON, in a copy of a version's folder."""
    if not (folder / "program.rga").exists():
        shutil.copytree(HERE / version, folder, dirs_exist_ok=True)
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        main([*arguments, "--json"])
    return json.loads(out.getvalue())


def fields(document: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each field of a document, by its path, and what it holds; elements of an array have one path."""
    match document:
        case dict():
            yield path, "object"
            for name, value in document.items():
                yield from fields(value, f"{path}/{name}")
        case list():
            yield path, "array"
            for value in document:
                yield from fields(value, f"{path}[]")
        case None:
            yield path, "null"
        case bool():
            yield path, "boolean"
        case int() | float():
            yield path, "number"
        case _:
            yield path, "string"


def kept_fields(document: Any) -> dict[str, str]:
    """Path -> the kinds of value that a field has, such as `null or number`."""
    kinds: dict[str, set[str]] = {}
    for path, kind in fields(document):
        kinds.setdefault(path, set()).add(kind)
    return {path: " or ".join(sorted(found)) for path, found in sorted(kinds.items())}


def lost(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Fields that are gone, and fields that hold something else: what a reader of the earlier version stumbles over."""
    return [
        f"{path}: {kinds} before, {now.get(path, 'gone')} now"
        for path, kinds in before.items()
        if not set(now.get(path, "gone").split(" or ")) <= set(kinds.split(" or "))
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_keep_their_fields(version: str, name: str, tmp_path: Path) -> None:
    """A field that is removed, or holds something else, makes the schema NAME/N + 1; added fields are allowed."""
    before = json.loads((HERE / version / "documents.json").read_text())[name]
    now = printed(version, tmp_path, DOCUMENTS[name])
    if now.get("schema") == before["schema"]:
        assert lost(before["fields"], kept_fields(now)) == []
    else:
        kind, _, number = before["schema"].partition("/")
        assert now["schema"].partition("/")[::2] > (kind, number)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", READINGS)
def test_files_give_what_they_gave(version: str, name: str, tmp_path: Path) -> None:
    before = json.loads((HERE / version / "results.json").read_text())[name]
    assert result(printed(version, tmp_path, READINGS[name])) == before


def result(document: Any) -> Any:
    """What a file says: words and counts, without the steps and prices that change with the compiler and the models."""
    if document["schema"].startswith("retrograd.run/"):
        return {key: document[key] for key in ("stop", "steps", "pc", "br", "direction", "registers", "memory")}
    if document["schema"].startswith("retrograd.batch/"):
        return {key: document[key] for key in ("elements", "erased_bits", "traps")}
    return [row["counts"]["erased_bits"] for row in document["rows"]]


def test_what_counts_as_lost() -> None:
    before = kept_fields({"a": 1, "b": [{"c": None}, {"c": "x"}], "d": {}})
    assert lost(before, kept_fields({"a": 2.5, "b": [{"c": None, "new": 1}], "d": {"e": 1}, "f": 0})) == []
    assert lost(before, kept_fields({"a": "1", "b": [{"c": True}]})) == [
        "/a: number before, string now", "/b[]/c: null or string before, boolean now", "/d: object before, gone now",
    ]  # fmt: skip


def keep(version: str) -> None:
    """Write documents.json and results.json of a version."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {key: printed(version, folder, arguments) for key, arguments in DOCUMENTS.items()}
        documents = {key: {"schema": value["schema"], "fields": kept_fields(value)} for key, value in found.items()}
        results = {key: result(printed(version, folder, arguments)) for key, arguments in READINGS.items()}
    for file, content in (("documents.json", documents), ("results.json", results)):
        with (HERE / version / file).open("x") as out:
            out.write(json.dumps(content, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    keep(retrograd.__version__)
