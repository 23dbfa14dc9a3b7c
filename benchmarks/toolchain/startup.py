"""The time of a whole process: `--help`, and a small run, on each engine."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

from retrograd.benchmarks.measure import Row, seconds
from retrograd.isa.files import write_file

from retrograd import examples
from retrograd.runtime._execution import ENGINES

CLI = ("-m", "retrograd.cli.main")
EXAMPLE = Path(examples.__file__).parent / "isqrt.rga"


def measure(quick: bool) -> list[Row]:
    """Whole processes, beside an empty Python process in the same run. The first run of an engine fills its cache and is not timed."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "small.rga"
        write_file(program, "start\nadd r1, 2\nmul.add r2, r1, r1\nfinish\n")

        processes: dict[str, tuple[str, ...]] = {
            "an empty Python process": ("-c", "pass"),
            "retrograd --help": (*CLI, "--help"),
            "retrograd run, a small program": (*CLI, "run", str(program)),
        }
        absent = []
        for engine in _engines():
            chosen = ("--engine", engine) if engine else ()
            name = f"retrograd run {EXAMPLE.name}, {' '.join(chosen) or 'which has no --engine'}"
            run = (*CLI, "run", str(EXAMPLE), "--set", "n=1000000", *chosen)
            if _process(*run):
                processes[name] = run
            else:
                absent.append(Row(name, 0, "(absent)"))
        tasks = {name: functools.partial(_succeed, *arguments) for name, arguments in processes.items()}
        spent = seconds(tasks, 5 if quick else 15)
    bars = {"an empty Python process": None, "retrograd --help": 0.2}
    rows = [Row(name, middle, "s", bars.get(name, 0.5), lower_is_better=True) for name, (middle, _) in spent.items()]
    return rows + absent


def _process(*arguments: str) -> bool:
    """Whether Python succeeds with these arguments. Its output is discarded."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def _succeed(*arguments: str) -> None:
    if not _process(*arguments):
        raise AssertionError(f"{' '.join(arguments)} failed")


def _engines() -> tuple[str, ...]:
    """The engines of the command line; [""] if it has no option for them."""
    command = [sys.executable, *CLI, "run", "--help"]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return ENGINES if "--engine" in shown.stdout else ("",)
