"""How long a whole process takes: `--help`, and a small run."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Row, seconds


def measure(quick: bool) -> list[Row]:
    """Whole processes, beside an empty Python in the same run."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "small.rga"
        program.write_text("start\nadd r1, 2\nmul.add r2, r1, r1\nfinish\n")

        def process(*arguments: str) -> None:
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

        cli = ("-m", "retrograd.cli.main")
        tasks = {
            "python": lambda: process("-c", "pass"),
            "help": lambda: process(*cli, "--help"),
            "run": lambda: process(*cli, "run", str(program)),
        }
        spent = seconds(tasks, 5 if quick else 15)
    return [
        Row("an empty Python process", spent["python"][0], "s"),
        Row("retrograd --help", spent["help"][0], "s", 0.2, lower_is_better=True),
        Row("retrograd run, a small program", spent["run"][0], "s", 0.5, lower_is_better=True),
    ]
