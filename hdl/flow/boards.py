# amaranth: UnusedElaboratable=no
"""The co-processor on a board: pins, clock, reset, and the bitstream.

    build(BOARDS["ulx3s"], parameters, folder, pll_for(25.0, mhz), seed) -> Built

Pins are those of amaranth-boards. The clock of the board goes through a PLL; the reset is released with the clock, by a synchroniser.
The serial line is that of the board's USB. Source of the PLL's limits: Lattice FPGA-TN-02200, ECP5 sysCLOCK PLL/DLL design and usage guide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, Elaboratable, Instance, Module, Signal
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.io import Buffer
from retrograd.hdl.bus.top import SerialCoprocessor
from retrograd.hdl.flow.synthesis import BAUD, Placed, route, synthesise
from retrograd.hdl.flow.tools import ECPPACK, NEXTPNR, YOSYS, need, run
from retrograd.hdl.parameters import Parameters
from retrograd.isa.files import write_file


@dataclass(frozen=True)
class Board:
    """A board with an ECP5-85F."""

    title: str
    #: module and class of its platform in amaranth-boards
    platform: tuple[str, str]
    #: options of nextpnr
    device: tuple[str, ...]
    #: the resource of its clock, and the frequency
    clock: str
    mhz: float
    #: the resource that resets the co-processor while it is active
    reset: str


BOARDS = {
    "ulx3s": Board(
        "ULX3S with an ECP5-85F", ("amaranth_boards.ulx3s", "ULX3S_85F_Platform"),
        ("--package", "CABGA381", "--speed", "6"), "clk25", 25.0, "button_pwr",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Pll:
    """Dividers of an ECP5's PLL with its feedback from the output: f = input · feedback / input divider."""

    #: the output, in MHz
    mhz: float
    input: int
    feedback: int
    output: int


def pll_for(source: float, mhz: float) -> Pll:
    """The dividers whose output is nearest to `mhz` from a source in MHz; the oscillator stays within 400 to 800 MHz.

    Raises ValueError outside of 10 to 200 MHz.
    """
    if not 10 <= mhz <= 200:
        raise ValueError(f"the PLL of the board makes 10 to 200 MHz, not {mhz:g}")
    found = [
        Pll(source * feedback / divider, divider, feedback, int(800 // (source * feedback / divider)))
        for divider in range(1, 8)
        for feedback in range(1, 81)
        if 10 <= source * feedback / divider <= 200
    ]
    return min(found, key=lambda pll: (abs(pll.mhz - mhz), pll.input))


class BoardTop(Elaboratable):
    """The co-processor with the board's clock, reset, serial line and two lamps: busy, and the interrupt line."""

    def __init__(self, board: Board, parameters: Parameters, pll: Pll) -> None:
        self.board, self.pll = board, pll
        self.serial = SerialCoprocessor(parameters, round(pll.mhz * 1e6 / BAUD))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        clock, locked = Signal(name="clock"), Signal(name="locked")
        line = platform.request("uart", dir=dict.fromkeys(("rx", "tx", "rts", "dtr"), "-"))
        m.submodules.source = source = Buffer("i", platform.request(self.board.clock, dir="-"))
        m.submodules.button = button = Buffer("i", platform.request(self.board.reset, dir="-"))
        m.submodules.rx, m.submodules.tx = rx, tx = Buffer("i", line.rx), Buffer("o", line.tx)
        m.submodules.pll = _instance(self.pll, source.i, clock, locked)
        m.domains.sync = ClockDomain()
        m.d.comb += ClockSignal("sync").eq(clock)
        platform.add_clock_constraint(clock, self.pll.mhz * 1e6)
        m.submodules.reset = ResetSynchronizer(~locked | button.i, domain="sync")
        m.submodules.serial = serial = self.serial
        m.d.comb += [serial.rx.eq(rx.i), tx.o.eq(serial.tx)]
        for number, lamp in enumerate((serial.busy, serial.interrupt)):
            m.submodules[f"lamp_{number}"] = led = Buffer("o", platform.request("led", number, dir="-"))
            m.d.comb += led.o.eq(lamp)
        return m


def _instance(pll: Pll, source: Any, clock: Signal, locked: Signal) -> Instance:
    off = dict.fromkeys(("PLLRST_ENA", "INTFB_WAKE", "STDBY_ENABLE", "DPHASE_SOURCE"), "DISABLED")
    parameters: Mapping[str, Any] = off | {
        "CLKOP_ENABLE": "ENABLED", "CLKOP_DIV": pll.output, "CLKOP_CPHASE": pll.output // 2, "CLKOP_FPHASE": 0,
        "CLKI_DIV": pll.input, "CLKFB_DIV": pll.feedback, "FEEDBK_PATH": "CLKOP",
    }  # fmt: skip
    low = ("RST", "STDBY", "PHASESEL0", "PHASESEL1", "PHASEDIR", "PHASESTEP", "PHASELOADREG", "PLLWAKESYNC", "ENCLKOP")
    return Instance(
        "EHXPLLL",
        # The loop filter that Lattice's tools choose for these outputs.
        a_ICP_CURRENT="12", a_LPF_RESISTOR="8", a_MFG_ENABLE_FILTEROPAMP="1", a_MFG_GMCREF_SEL="2",
        **{f"p_{name}": value for name, value in parameters.items()},
        **{f"i_{name}": 0 for name in low},
        i_CLKI=source, i_CLKFB=clock, o_CLKOP=clock, o_LOCK=locked,
    )  # fmt: skip


@dataclass(frozen=True)
class Built:
    """A bitstream, and the placement in it."""

    placed: Placed
    #: the clock of the co-processor in MHz; the bitstream is reliable if the placement is as fast
    mhz: float
    bitstream: bytes

    @property
    def reliable(self) -> bool:
        """Whether the placement is fast enough for the clock."""
        return self.placed.mhz >= self.mhz


def build(board: Board, parameters: Parameters, folder: Path, pll: Pll, seed: int = 1) -> Built:
    """Make the bitstream; files go to `folder`.

    Raises FileNotFoundError before it begins if a tool or amaranth-boards is not installed, subprocess.CalledProcessError if a tool fails.
    """
    need((YOSYS, NEXTPNR, ECPPACK))
    files = prepared(board, parameters, pll)
    synthesise(files["top.il"], folder, parameters)
    write_file(folder / "top.lpf", files["top.lpf"])
    placed = route(
        folder, pll.mhz, seed, *board.device, "--lpf", "top.lpf", "--textcfg", "top.config", "--timing-allow-fail"
    )
    run(folder, ECPPACK, "--compress", "--input", "top.config", "--bit", "top.bit")
    return Built(placed, pll.mhz, (folder / "top.bit").read_bytes())


def prepared(board: Board, parameters: Parameters, pll: Pll) -> dict[str, str]:
    """The design and its constraints: top.il and top.lpf."""
    module, name = board.platform
    try:
        platform = getattr(import_module(module), name)()
    except ModuleNotFoundError:
        raise FileNotFoundError(2, "no such package", "amaranth-boards") from None
    plan = platform.prepare(BoardTop(board, parameters, pll), "top", emit_src=False)
    texts = {name: plan.files[name] for name in ("top.il", "top.lpf")}
    return {name: text if isinstance(text, str) else text.decode() for name, text in texts.items()}
