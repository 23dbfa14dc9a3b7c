"""Write the tutorials as notebooks: text and examples are those of the pages, which remain the only source.

    python tools/make_notebooks.py docs/notebooks
    python tools/make_notebooks.py --check docs/notebooks
    python tools/make_notebooks.py --execute build/notebooks

A session with `>>> ` prompts becomes a code cell for each shown result, a command of the shell a cell `!command`, and a block
`python NAME.py` a cell that writes the file. A block `python notebook` is in the notebook only, since its result is a page. The
notebooks are stored without outputs. `--execute` and `make site` run them, and compare their outputs with the pages.
"""

from __future__ import annotations

import argparse
import doctest
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from typing import Any

from retrograd.isa.files import write_file
from run_examples import OUTPUT, matches

ROOT = Path(__file__).resolve().parent.parent
#: name of the notebook -> its page
PAGES = {
    "first-steps": "docs/first-steps.md",
    "language": "docs/tutorials/language.md",
    "gradient": "docs/tutorials/gradient.md",
    "machine": "docs/tutorial.md",
    "erasing": "docs/tutorials/erasing.md",
    "coprocessor": "docs/tutorials/coprocessor.md",
}
_BLOCK = re.compile(r"^```(console|python|python notebook|python \w+\.py)\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
#: the first cell where commands use files of examples/
_PROGRAMS = """# The example programs, beside this notebook.
from shutil import copytree

copytree("{}", "examples", dirs_exist_ok=True)"""
_LINK = re.compile(r"\]\(([^)\s:#]+)(#[^)\s]*)?\)")


@dataclass(frozen=True)
class Cell:
    """A cell: Markdown, or code with the output that the page shows (None: the page shows none, or the block runs here only)."""

    kind: str
    source: str
    expected: str | None = None


def cells(page: Path, folder: Path) -> Iterator[Cell]:
    """The cells of a page, for a notebook in a folder. Relative links lead to the same files."""
    text = page.read_text("utf-8")

    def link(found: re.Match[str]) -> str:
        return f"]({Path(relpath(page.parent / found[1], folder)).as_posix()}{found[2] or ''})"

    if re.search(r"^\$ .* examples/", text, re.MULTILINE):
        yield Cell("code", _PROGRAMS.format(Path(relpath(ROOT / "examples", folder)).as_posix()))
    end = 0
    for block in _BLOCK.finditer(text):
        if words := text[end : block.start()].strip():
            yield Cell("markdown", _LINK.sub(link, words))
        end = block.end()
        yield from _code(block[1], block[2])
    if words := text[end:].strip():
        yield Cell("markdown", _LINK.sub(link, words))


def _code(kind: str, block: str) -> Iterator[Cell]:
    if kind == "python":
        waiting = ""
        for example in doctest.DocTestParser().get_examples(block):
            waiting += example.source
            if example.want:
                yield Cell("code", waiting.rstrip(), example.want)
                waiting = ""
        if waiting:
            yield Cell("code", waiting.rstrip(), "")
    elif kind == "console":
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            yield Cell("code", f"!{command}", expected)
    elif kind == "python notebook":
        yield Cell("code", block.rstrip())
    else:
        yield Cell("code", f"%%writefile {kind.split()[1]}\n{block.rstrip()}")


def notebook(page: Path, folder: Path) -> str:
    """The notebook of a page as text, in version 4.5 of the format."""
    found = []
    for number, cell in enumerate(cells(page, folder)):
        # Jupyter's own tag: execution goes on behind a cell that shows an error.
        tags = {"tags": ["raises-exception"]} if (cell.expected or "").startswith("Traceback") else {}
        entry: dict[str, object] = {"cell_type": cell.kind, "id": f"cell-{number}", "metadata": tags}
        if cell.kind == "code":
            entry |= {"execution_count": None, "outputs": []}
        found.append(entry | {"source": cell.source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {
        "cells": found,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def execute(page: Path, folder: Path) -> tuple[str, list[str]]:
    """(The notebook of a page with outputs, the cells whose output differs from the page), run in a folder.

    Raises nbclient.exceptions.CellExecutionError for a cell that raises although the page shows no error.
    """
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.reads(notebook(page, folder), as_version=4)
    nbformat.validate(book)
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "120", "PYTHONUTF8": "1"}
    quiet = ["--log-level=ERROR"]
    client = NotebookClient(book, timeout=600, resources={"metadata": {"path": str(folder)}}, extra_arguments=quiet)
    client.execute(env=environment)
    for cell in book.cells:
        if cell.source.startswith("!"):
            text = "".join(out["text"] for out in cell.outputs)
            cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=left_on_terminal(text))]
    pairs = list(zip(cells(page, folder), book.cells, strict=True))
    wrong = [f"{page}: {cell.source}" for cell, done in pairs if cell.kind == "code" and not _is_shown(cell, done)]
    return nbformat.writes(book), wrong


def left_on_terminal(text: str) -> str:
    """The text that a terminal shows in the end: without lines that were erased, such as a bar of progress, and without colours."""
    text = re.sub(r"[^\n]*\n[^\n]*\x1b\[1A\r?\x1b\[2K", "", text.replace("\r\n", "\n"))
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", re.sub(r"[^\n]*\x1b\[2K", "", text)).replace("\r", "")


def _is_shown(cell: Cell, done: Mapping[str, Any]) -> bool:
    """Whether the outputs of a cell are those of the page, by the rules of tools/run_examples.py."""
    outputs = done["outputs"]
    if cell.expected is None:
        return bool(outputs)
    if "tags" in done["metadata"]:
        # The page shows Python's traceback, and a notebook its own: the last lines are the same.
        kind, _, message = cell.expected.split("\n", 2)[-1].strip().partition(": ")
        error = outputs[-1]
        return error["ename"] == kind.rpartition(".")[2] and _same(message, error["evalue"])
    shown = "".join(out["text"] if "text" in out else out["data"].get("text/plain", "") for out in outputs)
    return matches(cell.expected, shown) if cell.source.startswith("!") else _same(cell.expected, shown)


def _same(want: str, got: str) -> bool:
    return doctest.OutputChecker().check_output(want.rstrip() + "\n", got.rstrip() + "\n", OUTPUT)


def write_executed(folder: Path, root: Path = ROOT) -> list[str]:
    """Execute every notebook, two at a time, and write them to a folder; the cells whose output differs from the page.

    `root`: of the copy of the repository to whose files the links lead.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda page: execute(root / page, folder.resolve()), PAGES.values()))
    for name, (text, _) in zip(PAGES, done, strict=True):
        write_file(folder / f"{name}.ipynb", text)
    return [cell for _, wrong in done for cell in wrong]


def main() -> int:
    """Write the notebooks, or compare those of a folder, or their outputs, with the pages (1: one differs)."""
    p = argparse.ArgumentParser(description="Write the tutorials as notebooks.")
    p.add_argument("folder", type=Path)
    p.add_argument("--check", action="store_true", help="compare, and write nothing")
    p.add_argument("--execute", action="store_true", help="write them with outputs, and compare these with the pages")
    options = p.parse_args()
    if options.execute:
        wrong = write_executed(options.folder)
        for cell in wrong:
            print(f"another output than the page's: {cell}")
        return int(bool(wrong))
    wanted = {f"{name}.ipynb": notebook(ROOT / page, options.folder.resolve()) for name, page in PAGES.items()}
    if not options.check:
        options.folder.mkdir(parents=True, exist_ok=True)
        for name, text in wanted.items():
            write_file(options.folder / name, text)
        return 0
    found = {path.name: path.read_text("utf-8") for path in options.folder.glob("*.ipynb")}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            print(f"{options.folder / name} is not fresh: run python tools/make_notebooks.py {options.folder}")
    return int(wanted != found)


if __name__ == "__main__":
    sys.exit(main())
