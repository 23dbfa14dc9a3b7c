"""Run the examples in Markdown files, and compare their output with the page.

A block marked `console` holds commands after `$ ` and their output; a block marked `python` is a session with
`>>> ` prompts. A block marked `python NAME.py` is the text of a file, which later commands of the page can run. In output, a line `…` stands for any lines, and `…` within a line for any text.
Commands run in order in a temporary copy of examples/, so later commands can use the files of earlier commands. A block
marked `python slow` takes minutes, and is run with --slow only.

    python tools/run_examples.py [--slow] README.md docs/*.md
"""

from __future__ import annotations

import doctest
import importlib.util
import linecache
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: how doctest compares results
OUTPUT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_BLOCK = re.compile(r"^```(console|python|python slow|python \w+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def matches(expected: str, got: str) -> bool:
    """Whether the output matches, where `…` stands for any text."""
    pattern = ".*?".join(re.escape(piece) for piece in expected.rstrip().split("…"))
    # The width of a table's columns depends on their contents, so runs of blanks match each other.
    pattern = re.sub(r"(\\ )+", r"\\s+", pattern)
    return re.fullmatch(pattern, got.rstrip(), re.DOTALL) is not None


def run_console(block: str, folder: Path) -> list[str]:
    """A report for each command of a block with another output than the page."""
    wrong = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        environment = {**os.environ, "COLUMNS": "120", "PYTHONUTF8": "1"}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, check=False, text=True, encoding="utf-8",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if not matches(expected, done.stdout):
            wrong.append(f"$ {command}\nexpected:\n{expected}\ngot:\n{done.stdout}")
    return wrong


def run_python(block: str, name: str, scope: dict[str, object]) -> list[str]:
    """A report for the examples of a session with another output than the page.

    `name`: of the block. Later blocks compile functions of earlier blocks, so the lines of each stay in `linecache`.
    """
    test = doctest.DocTestParser().get_doctest(block, scope, name, name, 0)
    for number, example in enumerate(test.examples):
        file = f"<doctest {name}[{number}]>"
        linecache.cache[file] = (len(example.source), None, example.source.splitlines(keepends=True), file)
    out: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OUTPUT)
    runner.run(test, out=out.append, clear_globs=False)
    scope.update(test.globs)
    return ["".join(out)] if out else []


def main(names: list[str]) -> int:
    """Run every block of the files, slow blocks with --slow; returns 1 if an output differs from the page."""
    if importlib.util.find_spec("hypothesis") is not None:  # a base install has none
        from hypothesis import HealthCheck, settings

        # No example fails for the time of a busy machine.
        settings.register_profile("examples", deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("examples")
    failures = blocks = left_out = 0
    slow = "--slow" in names
    for name in (name for name in names if name != "--slow"):
        text = Path(name).read_text("utf-8")
        scope: dict[str, object] = {}
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "work"
            shutil.copytree(ROOT / "examples", folder / "examples")
            here = Path.cwd()
            for kind, block in _BLOCK.findall(text):
                if kind == "python slow" and not slow:
                    left_out += 1
                    continue
                blocks += 1
                if kind.endswith(".py"):
                    (folder / kind.split()[1]).write_text(block, "utf-8")
                    continue
                if kind == "console":
                    wrong = run_console(block, folder)
                else:
                    os.chdir(folder)
                    wrong = run_python(block, f"{name}, block {blocks}", scope)
                    os.chdir(here)
                failures += len(wrong)
                for report in wrong:
                    print(f"{name}:\n{report}\n", file=sys.stderr)
    print(f"{blocks} example blocks, {failures} wrong" + (f"; {left_out} left out, run by --slow" if left_out else ""))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
