"""Standard streams that the shell has closed, or that are full."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

Every = Callable[[Callable[[Any], None], Iterable[Any]], None]

#: command -> its exit code where all streams are open; all commands, the cheap way through each
COMMANDS = {
    "run square.rga": 0, "run square.rga --json": 0, "run wrong.rga": 2, "run none.rga": 2, "run -": 2, "run endless.rga --max-steps 9": 4,
    "run ends.rga": 3, "run square.rga --trace": 0, "asm square.rga -o out.rgx": 0, "asm square.rga -o square.rga": 2, "dis square.rga": 0,
    "verify square.rga": 0, "verify wrong.rga --json": 2, "isa mul": 0, "isa nothing": 2, "explain RG0101": 0, "demo": 0, "devices": 0,
    "--help": 0, "run --help": 0, "--version": 0, "": 0, "no-command": 2, "run f.py:f 1.0": 0, "run f.py:none": 2, "grad f.py:g 0.0 1.0": 0,
    "compile f.py:f": 0, "compile f.py:f -o f.rgx": 0, "energy f.py:f 1.0": 0, "energy --models": 0, "sweep f.py:f --args 1.0": 0,
    "bench no-such": 2, "hdl stat --format 8": 2,
    "completion bash": 0, "man": 0, "gates mov.add --format 4,2": 0, "gates nothing": 2, "invert p.ja": 0, "ranges f.py:f 1.0": 0,
    "test s.vlad": 0, "trace square.rga -o t.vcd": 0, "explore square.rga -o x.html": 0, "graph f.py:f 1.0 -o g.svg": 0,
    "debug none.rga": 2, "dap --port none": 2, "lsp --port": 2, "entropy f.py:f x=1.0,2.0": 0,
}  # fmt: skip
#: what the shell does -> whether standard output can be written
STREAMS = {
    ">&-": False, ">/dev/full": False, ">&- 2>&-": False, ">&- 2>&- <&-": False, "2>&-": True, "2>/dev/full": True, "<&-": True,
}  # fmt: skip


@pytest.fixture
def ready(folder: Path) -> Path:
    (folder / "ends.rga").write_text("start\nadd r1, 1\nassertz r1\nfinish\n")
    (folder / "f.py").write_text(
        "from retrograd import fixed, reversible\n\n\n@reversible\ndef f(x: fixed):\n    x += 1.0\n\n\n"
        "@reversible\ndef g(y: fixed, x: fixed):\n    y += x\n"
    )
    (folder / "p.ja").write_text("procedure main()\n    int x\n    x += 1\n")
    (folder / "s.vlad").write_text("(+ 1 2)  ===> 3\n")
    return folder


def ran(folder: Path, command: str, streams: str) -> subprocess.CompletedProcess[bytes]:
    """The command as a user's shell runs it, outputs buffered."""
    line = f'"{sys.executable}" -m retrograd.cli.main {command} {streams}'
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"} | {"PYTHONSAFEPATH": "1"}
    return subprocess.run(
        ["sh", "-c", line], cwd=folder, capture_output=True, env=environment, stdin=subprocess.DEVNULL, check=False
    )


def prints(command: str) -> bool:
    """Whether anything comes on standard output."""
    return COMMANDS[command] != 2 or "--json" in command


def check(folder: Path, command: str, streams: str) -> None:
    found = ran(folder, command, streams)
    lost = not STREAMS[streams] and prints(command)
    assert found.returncode == (2 if lost else COMMANDS[command]), found.stderr
    assert b"Traceback" not in found.stderr + found.stdout
    assert b"Exception" not in found.stderr
    assert not re.search(rb"^error\b|error\[RG", found.stdout, re.MULTILINE)
    if lost and "2>" not in streams:
        assert b"the output cannot be written" in found.stderr


#: a way through each kind of end, cheap enough for every run
QUICK = [
    ("run square.rga", ">&-"), ("run square.rga", ">/dev/full"), ("--help", ">/dev/full"), ("run wrong.rga", "2>&-"), ("run ends.rga", "2>/dev/full"),
    ("run -", "<&-"), ("asm square.rga -o out.rgx", ">&- 2>&- <&-"), ("no-command", "2>&-"),
]  # fmt: skip


@pytest.mark.long
def test_streams_that_are_closed_or_full(ready: Path, every: Every) -> None:
    every(lambda case: check(ready, *case), QUICK)


def test_no_file_takes_the_number_of_a_stream(ready: Path) -> None:
    """What is printed does not end up in a file that was opened under number 1."""
    found = ran(ready, "run square.rga --out 0:0=out.txt", ">&- 2>&- <&-")
    assert found.returncode == 2
    assert (ready / "out.txt").read_bytes() == b""


@pytest.mark.long
@pytest.mark.parametrize("streams", STREAMS)
def test_all_commands(ready: Path, every: Every, streams: str) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = {command: pool.submit(check, ready, command, streams) for command in COMMANDS}
    every(lambda command: results[command].result(), COMMANDS)


@pytest.mark.long
def test_all_commands_with_open_streams(ready: Path, every: Every) -> None:
    """The codes above are right, and every command is among them."""

    def one(command: str) -> None:
        found = ran(ready, command, "")
        assert found.returncode == COMMANDS[command], found.stderr
        assert bool(found.stdout) == prints(command)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = {command: pool.submit(one, command) for command in COMMANDS}
    every(lambda command: results[command].result(), COMMANDS)
    from retrograd.cli.main import parser

    actions = [a for a in parser()._actions if a.choices]
    assert {*actions[0].choices} == {c.split()[0] for c in COMMANDS if c and not c.startswith("-")} - {"no-command"}


# ---------------------------------------------------------------------- --json

#: prints when it is loaded and when it runs, by Python and past it
PRINTING = """\
import os
from retrograd import external, fixed, reversible

print("loaded")
os.write(1, b"written\\n")

@reversible
def f(_x: fixed, y: fixed):
    y += _x * _x
    with external():
        print("in a block")
        os.system("echo from a process")
"""
#: commands whose --json is about a function
JSON = (
    "run p.py:f 2.0 0.0", "run p.py:f --batch b.npz", "run p.py:f --batch b.npz --workers 1", "grad p.py:f 2.0 0.0 --loss y",
    "energy p.py:f 2.0 0.0", "entropy p.py:f _x=1.0,2.0 y=0.0", "sweep p.py:f --args 2.0 0.0",
    "ranges p.py:f 2.0 0.0", "compile p.py:f --report", "hdl run p.py:f 2.0 0.0", "run p.py:none", "run s.vlad",
)  # fmt: skip


@pytest.mark.parametrize("command", JSON)
def test_json_stands_alone_on_standard_output(ready: Path, command: str) -> None:
    """A program's own text goes to standard error, whether Python prints it, a library in C, or another process."""
    import numpy as np

    (ready / "p.py").write_text(PRINTING)
    (ready / "s.vlad").write_text("(begin (write 5) (+ 1 2))\n")
    np.savez(ready / "b.npz", _x=np.ones(2), y=np.zeros(2))
    found = ran(ready, f"{command} --json", "")
    assert "schema" in json.loads(found.stdout), found.stderr
    if "p.py" in command:
        assert {b"loaded", b"written"} <= set(found.stderr.splitlines())
