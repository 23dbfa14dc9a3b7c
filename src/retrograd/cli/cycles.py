"""`retrograd run --cycles`: cycles of the co-processor for a run, by instruction."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from retrograd.isa.microarchitecture.micro_operations import core_units
from retrograd.presentation import columns
from retrograd.simulator.machine import Machine


@dataclass(frozen=True)
class Line:
    """An instruction with its counts; `each` has several values if ra and rb may be one register."""

    name: str
    differentiating: bool
    forward: int
    backward: int
    each: tuple[int, ...]
    cycles: int


def lines(machine: Machine, core: str) -> list[Line]:
    """The instructions executed, in decreasing order of their cycles."""
    counts: dict[tuple[str, bool], Counter[int]] = {}
    taken: Counter[tuple[str, bool]] = Counter()
    each: dict[tuple[str, bool], set[int]] = {}
    for execution, n in machine.executions().items():
        key, one = (execution.opcode.name, execution.lifted), execution.cycles(machine.format, core_units(core))
        counts.setdefault(key, Counter())[execution.direction] += n
        each.setdefault(key, set()).add(one)
        taken[key] += n * one
    ordered = sorted(counts, key=lambda key: (-taken[key], key))
    return [Line(*key, counts[key][+1], counts[key][-1], tuple(sorted(each[key])), taken[key]) for key in ordered]


def cycles_table(machine: Machine, core: str = "small") -> str:
    """A table of instructions: executions, cycles of each and of all on a core, the total."""
    found = lines(machine, core)
    total = sum(line.cycles for line in found)
    if not found:
        return "0 cycles"
    lifted = any(line.differentiating for line in found)
    rows = [["instruction", *["D"] * lifted, "forward", "backward", "cycles", "in all", "share"]]
    for line in found:
        each = "–".join(map(str, line.each))
        rows.append(
            [line.name, *[str(int(line.differentiating))] * lifted, str(line.forward), str(line.backward), each,
             str(line.cycles), f"{100 * line.cycles / total:.1f} %"]
        )  # fmt: skip
    per = total / machine.retired
    return f"{columns(rows, right=range(1, len(rows[0])))}\n{total} cycles, {per:.2f} for an instruction"


def cycles_dict(machine: Machine, core: str = "small") -> dict[str, Any]:
    """The same for programs, as part of schemas retrograd.run/1 and retrograd.call/1."""
    found = lines(machine, core)
    return {
        "core": core,
        "total": sum(line.cycles for line in found),
        "instructions": [
            {
                "name": line.name, "differentiating": line.differentiating, "forward": line.forward,
                "backward": line.backward, "each": list(line.each), "cycles": line.cycles,
            }
            for line in found
        ],
    }  # fmt: skip
