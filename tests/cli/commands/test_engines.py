"""`--engine`: every engine gives the same report, and says that it was this one; short runs import nothing that they do not need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.tiering import VARIABLE

from retrograd.cli.commands import run as command

Cli = Callable[..., tuple[int, str, str]]
Process = Callable[..., subprocess.CompletedProcess[bytes]]
OK, BAD_INPUT, TRAPPED, LIMIT = 0, 2, 3, 4
ENGINES = ["reference", "native", "threaded", "translated"]

FUNCTIONS = """\
import retrograd as rg
from retrograd import fixed, reversible

@reversible
def add_roots(total: fixed, n: int):
    for i in range(n):
        total += rg.sqrt(i)

@reversible
def add_root(total: fixed, x: fixed):
    total += rg.sqrt(x)

@reversible
def divide(y: int, x: int, z: int):
    y += x // z
"""


@pytest.fixture(autouse=True)
def source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "roots.py").write_text(FUNCTIONS)
    monkeypatch.delenv(VARIABLE, raising=False)


RUNS: dict[str, tuple[str, ...]] = {
    "forward": ("fib.rga", "--set", "r3=12"),
    "backward": ("fib.rga", "--set", "r3=12", "--set", "r1=233", "--set", "r2=377", "--backward"),
    "the inverse": ("fib.rga", "--set", "r3=2", "--set", "r1=2", "--set", "r2=3", "--inverse"),
    "memory": ("cipher.rga", "--set", "r4=8", "--set", "text=1"),
    "a limit": ("endless.rga", "--max-steps", "300007"),
    "a limit of few steps": ("endless.rga", "--max-steps", "2"),
    "no steps": ("endless.rga", "--max-steps", "0"),
    "a trap": ("square.rga", "--set", "r1=100000q"),
    "a trap that is off": ("square.rga", "--set", "r1=100000q", "--no-overflow"),
    "an erase": ("erase.rga",),
    "an erase that is refused": ("erase.rga", "--strict"),
    "an erase that cannot come back": ("erase.rga", "--backward"),
    "a breakpoint": ("fib.rga", "--set", "r3=3", "--break", "fib.base"),
    "more memory": ("add.rga", "--memory", "100"),
    "16 bits": ("small.rga", "--set", "r1=-1"),
    "8 bits": ("tiny.rga", "--set", "r1=0x7f"),
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.parametrize("name", RUNS)
def test_every_engine_gives_the_same_report(cli: Cli, name: str, engine: str) -> None:
    def report(engine: str) -> tuple[int, dict[str, Any]]:
        code, out, err = cli("run", *RUNS[name], "--json", "--engine", engine)
        assert err == ""
        found = json.loads(out)
        # Of compiled code, few steps to a stop are interpreted.
        assert found.pop("engine") in (
            "reference",
            *((engine,) if engine == "threaded" else ("threaded", "translated")),
        )
        return code, found

    assert report(engine) == report("reference")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_trace_shows_the_same_steps(cli: Cli, engine: str) -> None:
    """Whatever looks at each step is served: the machine takes them one by one."""
    wanted = cli("run", "fib.rga", "--set", "r3=6", "--trace")[2]
    code, _, err = cli("run", "fib.rga", "--set", "r3=6", "--trace", "--engine", engine)
    assert (code, err) == (OK, wanted)
    assert wanted.count("\n") > 100
    backward = ("run", "cipher.rga", "--set", "r4=8", "--trace", "--backward")
    assert cli(*backward, "--engine", engine)[2] == cli(*backward)[2]


@pytest.mark.parametrize("engine", ENGINES)
def test_breakpoints_stop_where_they_should(cli: Cli, engine: str) -> None:
    wanted = cli("run", "fib.rga", "--set", "r3=6", "--break", "fib.then", "--break", "fib.base", "--json")[1]
    found = cli(
        "run", "fib.rga", "--set", "r3=6", "--break", "fib.then", "--break", "fib.base", "--json", "--engine", engine
    )[1]
    assert json.loads(found) | {"engine": ""} == json.loads(wanted) | {"engine": ""}
    assert json.loads(wanted)["stop"] == "breakpoint"


@pytest.mark.parametrize("engine", ENGINES)
def test_memory_is_loaded_and_saved(cli: Cli, folder: Path, engine: str) -> None:
    (folder / "plain").write_bytes(bytes(range(64)))
    options = ("cipher.rga", "--set", "r4=8", "--engine", engine)
    assert cli("run", *options, "--mem", "text=plain,u64", "--out", f"text={engine},u64")[0] == OK
    assert cli("run", "cipher.rga", "--set", "r4=8", "--mem", "text=plain,u64", "--out", "text=wanted,u64")[0] == OK
    assert (folder / engine).read_bytes() == (folder / "wanted").read_bytes()
    assert cli("run", *options, "--backward", "--mem", f"text={engine},u64", "--out", "text=again,u64")[0] == OK
    assert (folder / "again").read_bytes() == bytes(range(64))


# ------------------------------------------------------------------------------------------------- reports


def test_the_report_names_the_engine_that_ran(cli: Cli, process: Process) -> None:
    head = {engine: cli("run", "fib.rga", "--set", "r3=12", "--engine", engine)[1].split("\n")[0] for engine in ENGINES}
    assert head["reference"].endswith("0 bits erased; engine: reference")
    assert head["threaded"].endswith("; engine: threaded")
    assert head["translated"].endswith("; engine: translated")
    # Where nothing was asked for and nothing was compiled, there is nothing to say.
    assert process("run", "fib.rga", "--set", "r3=12").stdout.split(b"\n")[0].endswith(b"0 bits erased")


def test_a_long_run_is_compiled_and_says_so(cli: Cli) -> None:
    code, out, _ = cli("run", "endless.rga", "--max-steps", "400000")
    assert code == LIMIT
    assert out.split("\n")[0].split("; engine: ")[1] in ("threaded", "translated")
    assert (
        out.split("\n")[1:]
        == cli("run", "endless.rga", "--max-steps", "400000", "--engine", "reference")[1].split("\n")[1:]
    )


def test_the_report_of_a_trap_names_the_engine(cli: Cli) -> None:
    code, out, err = cli("run", "square.rga", "--set", "r1=100000q", "--engine", "translated")
    assert code == TRAPPED
    assert err.startswith("error[RG0404]: fixed-point overflow in Q32.32")
    assert out.startswith("trap at pc 1 after 1 steps, running forward; 0 bits erased; engine: ")


@pytest.mark.parametrize("engine", ENGINES)
def test_functions(cli: Cli, engine: str) -> None:
    code, out, err = cli("run", "roots.py:add_roots", "0.0", "2000", "--engine", engine)
    wanted = cli("run", "roots.py:add_roots", "0.0", "2000", "--engine", "reference")[1]
    assert (code, err) == (OK, "")
    assert out.split("; engine: ")[0] == wanted.split("; engine: ")[0]
    report = json.loads(cli("run", "roots.py:add_roots", "0.0", "2000", "--engine", engine, "--json")[1])
    assert report["engine"] == out.rstrip().split("; engine: ")[1]
    assert report["engine"] in ((engine,) if engine != "native" else ("threaded", "translated"))
    assert report["schema"] == "retrograd.call/1"


@pytest.mark.parametrize("engine", ENGINES)
def test_functions_that_trap(cli: Cli, engine: str) -> None:
    wanted = cli("run", "roots.py:divide", "0", "7", "0")
    assert wanted[0] == TRAPPED
    assert cli("run", "roots.py:divide", "0", "7", "0", "--engine", engine) == wanted
    limited = cli("run", "roots.py:add_roots", "0.0", "2000", "--max-steps", "5000")
    assert limited[0] == LIMIT
    assert cli("run", "roots.py:add_roots", "0.0", "2000", "--max-steps", "5000", "--engine", engine) == limited


@pytest.mark.parametrize("engine", ENGINES)
def test_a_limit_of_any_size(cli: Cli, engine: str) -> None:
    """More than 64 bits hold is no limit."""
    code, _, err = cli("run", "fib.rga", "--set", "r3=12", "--max-steps", str(10**30), "--engine", engine)
    assert (code, err) == (OK, "")


# --------------------------------------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    "program", [("add.rga",), ("roots.py:add_roots", "0.0", "1"), ("roots.py:add_roots", "--batch", "x.npz")]
)
@pytest.mark.parametrize("name", ["", "quick", "Native", "native ", "cpu", "\n", "é"])
def test_engines_that_are_none(cli: Cli, program: tuple[str, ...], name: str) -> None:
    code, out, err = cli("run", *program, f"--engine={name}")
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith("error[RG1001]: there is no engine `")


@pytest.mark.parametrize("program", [("add.rga",), ("roots.py:add_roots", "0.0", "1")])
def test_one_run_is_not_for_a_gpu(cli: Cli, program: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = cli("run", *program, "--engine", "cuda")
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith("error[RG1001]: the engine `cuda` runs batches")
    assert "--batch" in err
    monkeypatch.setenv(VARIABLE, "cuda")
    assert "RETROGRAD_ENGINE in the environment" in cli("run", *program)[2]
    assert cli("run", *program, "--engine", "native")[0] == OK


def test_the_environment_says_what_auto_is(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def engine(*options: str) -> str:
        return str(json.loads(cli("run", "fib.rga", "--set", "r3=12", "--json", *options)[1])["engine"])

    monkeypatch.setenv(VARIABLE, "threaded")
    assert engine() == engine("--engine", "auto") == "threaded"
    assert engine("--engine", "reference") == "reference"
    assert cli("run", "fib.rga", "--set", "r3=12")[1].split("\n")[0].endswith("; engine: threaded")
    monkeypatch.setenv(VARIABLE, "")
    assert engine() != "threaded"
    monkeypatch.setenv(VARIABLE, "quick")
    assert "no engine `quick` (RETROGRAD_ENGINE in the environment)" in cli("run", "fib.rga")[2]


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("run", "fib.rga", "--set", "r3=12", "--engine", "threaded"), "engine: threaded: the engine was named"),
        (("run", "fib.rga", "--set", "r3=12", "--engine", "reference"), "engine: reference: the engine was named"),
        (("run", "fib.rga", "--set", "r3=12", "--trace"), "engine: reference: every step is observed"),
        (("run", "roots.py:add_roots", "0.0", "3"), "engine: reference: Python has taken 0.0 ms of the 15.0 ms"),
        (("run", "roots.py:divide", "0", "1", "0"), "engine: reference: Python has taken 0.0 ms of the 15.0 ms"),
        (("grad", "roots.py:add_root", "0.0", "3.0"), "engine: reference"),
        (("energy", "roots.py:add_roots", "0.0", "3"), "engine: reference"),
    ],
)
def test_the_engine_is_explained(
    cli: Cli, command: tuple[str, ...], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, and nowhere else."""
    monkeypatch.setattr(tiering, "policy", tiering.Policy())
    monkeypatch.setattr(tiering.policy, "to_import", lambda: 0.04)
    plain = cli(*command)
    code, out, err = cli(*command, "--explain-engine")
    assert (code, out) == plain[:2]
    assert [found for found in err.splitlines() if found.startswith(line)]
    assert "engine: " not in plain[2]


def test_the_engine_of_a_batch_is_explained(cli: Cli, folder: Path) -> None:
    np.savez(folder / "in.npz", total=np.zeros(3))
    command = ("run", "roots.py:add_roots", "n=3", "--batch", "in.npz", "--explain-engine")
    assert "engine: native: the engine was named" in cli(*command, "--engine", "native")[2]
    assert "engine: translated: its translation is loaded" in cli(*command)[2]


# ------------------------------------------------------------------------------------------------ progress


Terminal = Callable[[], None]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal, on which progress is shown at once. (Called by a test: until then it is another.)"""

    def install() -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        monkeypatch.setattr(command, "_PATIENCE", 0.01)
        monkeypatch.setattr(command, "_TICK", 0.02)

    return install


@pytest.mark.parametrize("limit", [True, False])
def test_progress_on_a_terminal(cli: Cli, terminal: Terminal, limit: bool) -> None:
    terminal()
    options = ("--max-steps", "600000") if limit else ("--set", "r2=200000")
    code, out, err = cli("run", "endless.rga", *options, "--engine", "reference")
    assert code == (LIMIT if limit else OK)
    lines = [line for line in err.split("\r") if "M steps" in line]
    assert len(lines) > 1
    assert all((" of 0.6 M steps, " in line) == limit for line in lines)
    assert f"{' ' * 60}\r" in err
    assert "engine: reference\n" in out


def test_progress_while_nothing_is_known(cli: Cli, terminal: Terminal) -> None:
    """Translated code tells of its steps when it has ended."""
    terminal()
    code, _, err = cli("run", "endless.rga", "--set", "r2=200000000", "--engine", "translated")
    assert code == OK
    assert "running, " in err


def test_no_progress_in_a_trace(cli: Cli, terminal: Terminal) -> None:
    terminal()
    assert "\r" not in cli("run", "endless.rga", "--max-steps", "5000", "--trace")[2]


def test_no_progress_of_a_short_run(cli: Cli, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal()
    monkeypatch.setattr(command, "_PATIENCE", 60.0)
    assert cli("run", "fib.rga", "--engine", "reference")[2] == ""


def test_no_progress_where_nobody_looks(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_PATIENCE", 0.0)
    assert cli("run", "endless.rga", "--set", "r2=100000", "--engine", "reference")[2] == ""


# ------------------------------------------------------------------------------------------------ start-up


def imported_by(*arguments: str) -> set[str]:
    code = f"""
import sys
from retrograd.cli.main import main
main({list(arguments)!r})
print(*sorted({{m.split('.')[0] for m in sys.modules}} & {{'numpy', 'llvmlite', 'rich'}}), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return set(done.stderr.decode().split("\n")[-2].split())


def test_short_runs_import_nothing_heavy() -> None:
    assert imported_by("run", "fib.rga", "--set", "r3=12") == set()
    assert imported_by("run", "endless.rga", "--set", "r2=25000") == set()
    assert imported_by("run", "fib.rga", "--engine", "reference") == set()


def test_long_runs_import_what_they_need() -> None:
    assert imported_by("run", "endless.rga", "--set", "r2=400000") == {"numpy", "llvmlite"}
    assert imported_by("run", "fib.rga", "--set", "r3=12", "--engine", "threaded") == {"numpy", "llvmlite"}


def test_short_functions_are_not_compiled_to_machine_code() -> None:
    assert imported_by("run", "roots.py:add_roots", "0.0", "3") == {"numpy"}


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no owners and modes")
def test_a_cache_in_which_others_can_write_is_noted(tmp_path: Path) -> None:
    """In one line, on stderr; the run goes on without the cache."""
    folder, program = tmp_path / "cache", tmp_path / "p.rga"
    folder.mkdir()
    folder.chmod(0o777)
    program.write_text("start\nadd r1, 5\nadd r2, r1\nadd r2, r1\nfinish\n")
    line = [sys.executable, "-m", "retrograd.cli.main", "run", str(program), "--engine", "threaded"]
    environment = {**os.environ, "RETROGRAD_CACHE": str(folder)}
    found = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0
    assert found.stderr.count("warning: compiled code is neither kept in nor read from") == 1
    assert not any(file in found.stderr for file in ("code_cache.py", "Traceback"))
    assert list(folder.iterdir()) == []
