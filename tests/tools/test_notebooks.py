"""The notebooks: fresh, and a wrong output is found when they are executed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


@pytest.fixture(scope="module")
def notebooks() -> ModuleType:
    """tools/make_notebooks.py"""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return import_module("make_notebooks")
    finally:
        sys.path.remove(str(ROOT / "tools"))


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/make_notebooks.py", "--check", str(folder)]
    return subprocess.run(command, cwd=ROOT, check=False, text=True, capture_output=True)


def test_a_notebook_that_differs_is_found(tmp_path: Path) -> None:
    # Links are relative to the folder of the notebooks, so the copy lies as deep in the same tree.
    assert check(FOLDER).returncode == 0
    assert sorted(NAMES) == ["coprocessor", "erasing", "first-steps", "gradient", "language", "machine"]
    copy = tmp_path / "notebooks"
    shutil.copytree(FOLDER, copy)
    done = check(copy)
    assert (done.returncode, done.stdout.count("is not fresh")) == (1, len(NAMES))


def test_a_result_ends_a_cell(notebooks: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n[a](b.md#c), [d](https://e.org)\n\n```python\n>>> x = 1\n>>> x\n1\n>>> for i in range(2):\n...     pass\n```\n"
        "```console\n$ echo 1\n1\n```\n```python f.py\npass\n```\n```python notebook\npage\n```\n```text\n>>> 5\n```\n"
    )
    found = [(cell.kind, cell.source, cell.expected) for cell in notebooks.cells(page, tmp_path / "sub")]
    assert found == [
        ("markdown", "# Title\n\n[a](../b.md#c), [d](https://e.org)", None),
        ("code", "x = 1\nx", "1\n"),
        ("code", "for i in range(2):\n    pass", ""),
        ("code", "!echo 1", "1\n"),
        ("code", "%%writefile f.py\npass", None),
        ("code", "page", None),
        ("markdown", "```text\n>>> 5\n```", None),
    ]


def test_erased_lines_are_left_out(notebooks: ModuleType) -> None:
    bar = "\x1b[?25l\r\x1b[2Krunning 0/9\r\x1b[2Krunning 9/9\r\n\x1b[?25h\r\x1b[1A\x1b[2K"
    assert notebooks.left_on_terminal(f"a\r\n{bar}\x1b[1;31mb\x1b[0m\r\nc") == "a\nb\nc"


@pytest.mark.long
def test_another_output_is_found(notebooks: ModuleType, tmp_path: Path) -> None:
    """`make site` executes every notebook; here a page with a wrong result of each kind."""
    page = tmp_path / "page.md"
    page.write_text(
        "```python\n>>> 1 + 1\n2\n>>> 1 + 2\n4\n>>> 1 / 0\nTraceback (most recent call last):\n...\nZeroDivisionError: division by zero\n"
        ">>> 2 / 0\nTraceback (most recent call last):\n...\nZeroDivisionError: no\n```\n"
        "```console\n$ echo a; echo b\na\n…\n$ echo c\nd\n```\n```python notebook\npass\n```\n"
    )
    text, wrong = notebooks.execute(page, tmp_path)
    assert '"execution_count": 4' in text
    assert [cell.removeprefix(f"{page}: ") for cell in wrong] == ["1 + 2", "2 / 0", "!echo c", "pass"]
    page.write_text("```python\n>>> 1 / 0\n```\n")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        notebooks.execute(page, tmp_path)
