"""The command line as a whole: help, usage, exit codes, processes and pipes, what is imported."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from retrograd import __version__
from retrograd.cli.commands import hdl
from retrograd.cli.main import COMMANDS as SUMMARIES
from retrograd.cli.main import MODULES, parser
from retrograd.cli.options import _RUN

Cli = Callable[..., tuple[int, str, str]]
Process = Callable[..., subprocess.CompletedProcess[bytes]]
OK, BAD_INPUT, TRAPPED, LIMIT = 0, 2, 3, 4
COMMANDS = ["demo", "run", "energy", "asm", "dis", "verify", "isa", "bench", "devices", "explain"]
HEAVY = {"numpy", "llvmlite", "amaranth", "matplotlib", "rich"}


def test_help(cli: Cli) -> None:
    code, out, err = cli("--help")
    assert (code, err) == (OK, "")
    assert [name for name in COMMANDS if f"\n    {name} " in out] == COMMANDS
    assert "exit codes: 0 ok, 1 wrong or worse (bench, hdl formal), 2 bad input" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(cli: Cli, name: str) -> None:
    code, out, err = cli(name, "--help")
    assert (code, err) == (OK, "")
    assert out.startswith(f"usage: retrograd {name}")
    assert "exit codes: " in out


@pytest.mark.long
def test_the_package_as_a_command(cli: Cli) -> None:
    """`python -m retrograd`, where the folder of commands is not on the path."""
    done = subprocess.run(
        [sys.executable, "-m", "retrograd", "isa", "--json"], capture_output=True, text=True, check=True
    )
    assert done.stdout == cli("isa", "--json")[1]
    done = subprocess.run([sys.executable, "-m", "retrograd", "ru"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr.partition(" [")[0]) == (2, "usage: retrograd")


def test_version(cli: Cli) -> None:
    """The first line is the version alone; a report of a fault needs the rest."""
    code, out, err = cli("--version")
    first, system, *found = out.splitlines()
    assert (code, err, first) == (OK, "", f"retrograd {__version__}")
    assert system.startswith(f"Python {platform.python_version()}, ")
    assert f"numpy {np.__version__}, " in found[0]
    assert f"pytest {pytest.__version__}" in found[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("",), ("nope",), ("run",), ("asm",), ("asm", "add.rga"), ("asm", "-o", "x"), ("dis",), ("verify",),
        ("run", "add.rga", "--nope"), ("compile",), ("run", "add.rga", "--set"),
        ("run", "add.rga", "--mem"), ("run", "add.rga", "-I"), ("isa", "mul", "add"), ("explain", "a", "b"),
        ("--json",), ("demo", "x"), ("run", "add.rga", "--json=1"),
    ],
)  # fmt: skip
def test_usage(cli: Cli, arguments: tuple[str, ...]) -> None:
    code, out, err = cli(*arguments)
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith("usage: retrograd")
    assert "error: " in err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "add.rga"), OK), (("run", "wrong.rga"), BAD_INPUT), (("run", "nope"), BAD_INPUT),
        (("run", "erase.rga", "--strict"), TRAPPED), (("run", "endless.rga", "--max-steps", "9"), LIMIT),
        (("verify", "erase.rga", "--strict"), BAD_INPUT), (("explain", "nope"), BAD_INPUT), (("isa", "swap"), OK),
    ],
)  # fmt: skip
def test_exit_codes(cli: Cli, process: Process, arguments: tuple[str, ...], code: int) -> None:
    """The same in process and in a process of its own, and the same words."""
    done = process(*arguments)
    there, out, err = cli(*arguments)
    # A process that has run other programs may choose a compiled engine.
    out = re.sub("; engine: (translated|threaded)$", "", out, flags=re.MULTILINE)
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (there, out, err)
    assert done.returncode == code


def test_every_message_has_a_fix(cli: Cli) -> None:
    for arguments in [("run", "wrong.rga"), ("run", "nope"), ("run", "endless.rga", "--max-steps", "9")]:
        err = cli(*arguments)[2]
        assert len(re.findall(r"^error\[RG\d{4}\]: ", err, re.MULTILINE)) == err.count("\n  fix: ")


@pytest.mark.parametrize("arguments", [("explain",), ("isa", "--markdown"), ("run", "add.rga"), ("--help",)])
def test_a_reader_that_goes_away(folder: Path, arguments: tuple[str, ...]) -> None:
    """`retrograd … | head -1` ends without a word, however little there was left to say."""
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "retrograd.cli.main", *arguments]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=variables, check=False)
    finally:
        os.close(writer)
    assert done.stderr.decode() == ""
    assert done.returncode in (OK, 141)


def test_a_pipeline(folder: Path) -> None:
    line = f'"{sys.executable}" -m retrograd.cli.main isa --markdown | head -1'
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=False)
    assert (done.returncode, done.stderr, done.stdout.count(b"\n")) == (OK, b"", 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(folder: Path) -> None:
    command = [sys.executable, "-m", "retrograd.cli.main", "explain"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    assert done.returncode not in (OK, 1, 120)


ENCODINGS = ["ascii", *(pytest.param(name, marks=pytest.mark.long) for name in ("latin-1", "cp1252"))]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("arguments", [("isa", "swap"), ("isa",), ("run", "add.rga", "--trace"), ("run", "wrong.rga")])
def test_terminals_without_unicode(process: Process, encoding: str, arguments: tuple[str, ...]) -> None:
    """A sign that the terminal lacks is replaced; it is no reason to fail."""
    done = process(*arguments, environment={"PYTHONIOENCODING": encoding})
    assert b"Traceback" not in done.stderr
    assert done.returncode == (BAD_INPUT if "wrong.rga" in arguments else OK)


def test_standard_input_of_a_process(process: Process) -> None:
    done = process("run", "-", "--json", given=b"start\nadd r1, 5\nfinish\n")
    assert (done.returncode, json.loads(done.stdout)["registers"]) == (OK, {"r1": 5})
    assert process("run", "-").returncode == BAD_INPUT
    assert process("run", "-", given=b"\xff\0\x80").returncode == BAD_INPUT


def test_interruption(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("retrograd.simulator.machine.Machine.run", interrupt)
    assert cli("run", "add.rga") == (130, "", "interrupted\n")


def test_demo(cli: Cli) -> None:
    code, out, err = cli("demo")
    assert (code, err) == (OK, "")
    assert "every register and every memory word is back, bit for bit" in out
    assert "0 bits were erased" in out


@pytest.mark.parametrize(
    "statement",
    [
        "import retrograd",
        "import retrograd; retrograd.Machine; retrograd.assemble; retrograd.from_image",
        "from retrograd.cli.main import main, parser; parser().format_help()",
        "from retrograd.cli.main import main; main(['explain'])",
        "from retrograd.cli.main import main; main(['run', 'add.rga'])",
    ],
)
def test_nothing_heavy_is_imported(folder: Path, statement: str) -> None:
    code = f"{statement}\nimport sys\nprint(sorted(m.split('.')[0] for m in sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    found = set(re.findall(r"'(\w+)'", done.stderr.decode()))
    assert "retrograd" in found
    assert found & HEAVY == set()


def test_import_retrograd_is_lean() -> None:
    code = "import sys; import retrograd; print([m for m in sys.modules if m.startswith('retrograd.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"['retrograd.lazy']"


@pytest.mark.parametrize(("top", "listed"), [(True, SUMMARIES), (False, hdl.COMMANDS)])
def test_a_command_is_two_functions_and_a_line(top: bool, listed: dict[str, str]) -> None:
    """Each command that a parser lists has its two functions, and the modules have no functions of other commands."""
    package = importlib.import_module("retrograd.cli.commands")
    names = [f"retrograd.cli.commands.{info.name}" for info in pkgutil.iter_modules(package.__path__)]
    made = [
        (name.removeprefix("retrograd.cli.commands."), key)
        for name in names
        for key, value in vars(importlib.import_module(name)).items()
        if key.startswith(("arguments_of_", "execute_")) and value.__module__ == name
    ]
    wanted = [(MODULES.get(name, name), name) for name in SUMMARIES]
    wanted += [("hdl", name) for name in hdl.COMMANDS]
    assert sorted(made) == sorted(
        (m, f"{start}{name}") for m, name in wanted for start in ("arguments_of_", "execute_")
    )
    for name, summary in listed.items():
        assert summary[0].islower(), (top, name)
        assert not summary.endswith("."), (top, name)


def test_help_imports_no_command() -> None:
    """Nor the table of instructions, or what is built on it."""
    code = (
        "import sys; from retrograd.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print([m for m in sys.modules\n"
        "    if m.startswith(('retrograd.cli.commands', 'retrograd.isa.expr', 'retrograd.isa.micro'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_option_of_a_run_is_the_same_in_each_command() -> None:
    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name in ("run", "energy", "grad", "compile", "sweep"):
        for action in commands.choices[name].filled()._actions:
            shared = _RUN.get(action.option_strings[0]) if action.option_strings else None
            # `sweep` takes several formats.
            if shared is not None and (name, action.dest) != ("sweep", "format"):
                assert action.help == shared["help"], (name, action.dest)
    assert {a.option_strings[0] for a in commands.choices["run"]._actions if a.option_strings} >= {*_RUN}
