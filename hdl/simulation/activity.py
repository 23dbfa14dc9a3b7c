"""Switching activity: how often the gates and flip-flops of the core switch in a run.

    toggles of a line = cycles after which its settled value differs;   activity = toggles / (cells · cycles)

The lines are those of `BitNetlist`, by the submodule of the core that they belong to: AND and XOR gates, inverters, flip-flops, bits of
words that read ports hold, and bits of memories. A gate of several submodules belongs to the first. Gates have no delay: a value that
changes several times within a cycle counts once at most, so glitches are not counted. A cycle in which no instruction executes counts for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.hdl.bus.transactions import Order, OrderReport
from retrograd.hdl.core.core import Core
from retrograd.hdl.simulation.bit_netlist import TRUE, BitNetlist
from retrograd.hdl.simulation.state_erasure import ErasureMeter
from retrograd.isa.program import Program

SCHEMA = "retrograd.activity/1"
#: submodule -> function unit of the gate counts; other submodules are the rest of the core, under their own names
UNITS = {
    "logic": "logic unit", "multiplier": "multiplier", "divider": "divider", "rom": "ROM", "branch": "branch unit",
    "decoder": "decoder",
}  # fmt: skip


@dataclass
class Switching:
    """The toggles of a run. A part is a unit and a kind of cell."""

    #: -> cells of the part
    cells: Mapping[tuple[str, str], int]
    cycles: int = 0
    toggles: Counter[tuple[str, str]] = field(default_factory=Counter)

    def as_dict(self, direction: int, lifted: bool, retired: int) -> dict[str, Any]:
        """For JSON: a run of the document. `direction`: ±1 at its begin; `lifted`: D."""
        units: dict[str, dict[str, dict[str, int]]] = {}
        for (unit, kind), n in sorted(self.cells.items()):
            units.setdefault(unit, {})[kind] = {"cells": n, "toggles": self.toggles[unit, kind]}
        return {
            "direction": direction, "D": int(lifted), "cycles": self.cycles, "instructions": retired, "units": units,
        }  # fmt: skip


def document(program: Program, name: str, core: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """For JSON: schema retrograd.activity/1. The digest is that of the program's code."""
    w = program.format
    return {
        "schema": SCHEMA,
        "format": {"width": w.width, "frac": w.frac},
        "core": core,
        "program": {"name": name, "digest": program.digest},
        "runs": list(runs),
    }


class ActivityMeter(ErasureMeter):
    """Carries out orders as `Simulation` does, on gates, and counts toggles. `switching`: those of each order."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        netlist = self.machine.netlist
        self._parts = [("", "")] * netlist.first_state + [*_parts(netlist)]
        found = Counter(part for part in self._parts if part[0])
        for name, width, words in netlist.memories.values():
            found[f"memory {name}", "memory bits"] += width * len(words)
        self._cells = dict(found)
        self.switching: list[Switching] = []

    def run(self, orders: Sequence[Order], vcd: str | None = None) -> list[OrderReport]:
        """Carry out the orders. Raises TimeoutError if the core does not become idle."""
        reports = []
        for order in orders:
            self._toggles: NDArray[np.int64] = np.zeros(len(self._parts), np.int64)
            self._before: NDArray[np.uint8] | None = None
            self.switching.append(Switching(self._cells))
            reports += super().run([order])
            assert self._before is None, "the core is idle at the end of an order"
            counts = self.switching[-1].toggles
            for line in np.flatnonzero(self._toggles).tolist():
                counts[self._parts[line]] += int(self._toggles[line])
        return reports

    def _cycle(self) -> None:
        machine, busy = self.machine, not self.machine.get(self.core.idle)
        settled = np.array(machine.values(), np.uint8)
        if self._before is not None:
            self._toggles += settled ^ self._before
        self._before = settled if busy else None
        written = machine.tick()
        if busy:
            here = self.switching[-1]
            here.cycles += 1
            for name, bits in written.items():
                here.toggles[f"memory {name}", "memory bits"] += bits


def _parts(netlist: BitNetlist) -> Sequence[tuple[str, str]]:
    """The unit and the kind of each line, from the first bit of the state on."""
    held = {port.first + k for port in netlist.reads for k in range(port.width)}
    kinds = ["memory port" if k in held else "DFF" for k in range(len(netlist.owners))]
    kinds += ["AND" if both else "NOT" if TRUE in (x, y) else "XOR" for both, x, y in netlist.gates]
    owners = [*netlist.owners, *(owner or "core" for owner in netlist.gate_owners)]
    return [(UNITS.get(owner, owner), kind) for owner, kind in zip(owners, kinds, strict=True)]
