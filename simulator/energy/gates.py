"""Cells of the datapath by function unit and kind: their number, from synthesis of the hardware, and how often they switch in a run.

    {"schema": "retrograd.gates/1", "format": {"width": 32, "frac": 16}, "core": "small",
     "units": {"logic unit": {"AND": 12, "DFF": 3}, …}, "in levels": {"levels": 343, "cells": {"AND": 15, "BUF": 200, …}}}

`in levels` has the whole core with the splitters and buffers of a technology that is clocked level by level, without flip-flops. Without such a
file, a format has no gate counts, and charges that need them are not modelled.

    activity of a part = toggles / (2 · cells · cycles):    rises of a cell in a cycle;    a part: a unit and a kind of cell

    {"schema": "retrograd.activity/1", "format": {"width": 32, "frac": 16}, "core": "small", "program": {"name": "hypot", "digest": "…"},
     "runs": [{"direction": 1, "D": 0, "cycles": 128, "instructions": 12, "units": {"logic unit": {"AND": {"cells": 9, "toggles": 5}, …}, …}}, …]}

`retrograd hdl run --activity FILE` writes the activity, which replaces the activity that a model assumes. All runs of a document are runs of one program, and are added up.

A gate of n inputs, of which m of the 2ⁿ values give 1, loses H(inputs) − H(output) = n − h(m / 2ⁿ) bits of independent uniform inputs,
h(p) = −p log₂ p − (1 − p) log₂ (1 − p).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
from itertools import combinations, product
from operator import or_
from pathlib import Path
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.files import read_file
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.simulator.energy.technology import Figure, Range

SCHEMA = "retrograd.gates/1"
ACTIVITY_SCHEMA = "retrograd.activity/1"
#: bytes; larger files are refused
_LARGEST = 1 << 20
#: the cell of memories: no gate, and not included in `any`
MEMORY_BITS = "memory bits"
FLIP_FLOPS = "DFF"
#: limit for the cells of a kind in a unit, far above that of any chip
_MOST = 1 << 50

#: kind of a combinational gate, by the names of synthesis -> (number of inputs, function of bits: of integers or of arrays of booleans)
GATES: dict[str, tuple[int, Callable[..., Any]]] = {
    "BUF": (1, lambda a: a),
    "NOT": (1, lambda a: ~a),
    "AND": (2, lambda a, b: a & b),
    "NAND": (2, lambda a, b: ~(a & b)),
    "OR": (2, lambda a, b: a | b),
    "NOR": (2, lambda a, b: ~(a | b)),
    "XOR": (2, lambda a, b: a ^ b),
    "XNOR": (2, lambda a, b: ~(a ^ b)),
    "ANDNOT": (2, lambda a, b: a & ~b),
    "ORNOT": (2, lambda a, b: a | ~b),
    "MAJ3": (3, lambda a, b, c: (a & b) | (a & c) | (b & c)),
    "MAJ5": (5, lambda *bits: reduce(or_, (a & b & c for a, b, c in combinations(bits, 3)))),
    "MUX": (3, lambda a, b, s: (a & ~s) | (b & s)),
}


@cache
def lost_bits(kind: str) -> float:
    """The bits that a gate of a kind loses, for independent uniform inputs; a flip-flop loses the bit that it held.

    >>> print(f"{lost_bits('AND'):.4f} {lost_bits('XOR')} {lost_bits('NOT')} {lost_bits('DFF')}")
    1.1887 1.0 0.0 1.0
    """
    if kind == "DFF":
        return 1.0
    if kind not in GATES:
        return 0.0
    inputs, function = GATES[kind]
    share: float = sum(function(*bits) & 1 for bits in product((0, 1), repeat=inputs)) / (1 << inputs)
    return inputs + sum(p * math.log2(p) for p in (share, 1 - share) if p)


#: the unit of gate counts that stands for all units that they do not name
REST = "rest of the core"


@dataclass(frozen=True)
class Activity:
    """The toggles of one program, summed over its runs."""

    format: Format
    core: str
    #: name and digest of the program
    program: str
    digest: str
    cycles: int
    #: unit -> kind of cell -> cells of the part · cycles, toggles
    units: Mapping[str, Mapping[str, tuple[int, int]]]
    file: str = ""

    def is_of(self, program: Program) -> bool:
        """Whether it is of a program with this code."""
        return self.digest == program.digest

    def rises(self, unit: str, kind: str, named: frozenset[str] = frozenset()) -> float:
        """Rises of a cell in a cycle. `named`: units that are not part of "rest of the core".

        If the simulated netlist lacks a part of the hardware, the part gets the activity of its unit, or of the whole core.
        """
        own = [u for u in self.units if u == unit or (unit == REST and u not in named)]
        for chosen in (
            [self.units[u].get(kind, (0, 0)) for u in own],
            *([*self.units[u].values()] for u in own),
            self._whole(),
        ):
            slots, toggles = (sum(n) for n in zip(*chosen, strict=True)) if chosen else (0, 0)
            if slots:
                return toggles / (2 * slots)
        return 0.0

    def figure(self, assumed: Figure) -> Figure:
        """The mean over all cells, which replaces the figure that a model assumes."""
        slots, toggles = (sum(n) for n in zip(*self._whole(), strict=True))
        source = f"toggles of the core {self.core} in a run of {self.program}, {self.cycles} cycles"
        mean = toggles / (2 * slots)
        return Figure(assumed.name, assumed.unit, Range(mean, mean, mean), source, "simulated")

    def _whole(self) -> list[tuple[int, int]]:
        return [part for kinds in self.units.values() for kind, part in kinds.items() if not kind.startswith("memory")]


@dataclass(frozen=True)
class Gates:
    """Cells of the datapath for one format."""

    format: Format
    #: function unit -> kind of cell -> number
    units: Mapping[str, Mapping[str, int]]
    file: str = ""
    #: the core that has these cells
    core: str = "small"
    #: levels of a cycle, and kind of cell -> number in levels, where the file has them
    levels: int | None = None
    in_levels: Mapping[str, int] = field(default_factory=dict)
    #: how often the cells switched in a run, if it was measured
    activity: Activity | None = None

    def cells(self, *, in_levels: bool = False) -> dict[str, int]:
        """Kind of cell -> number in all units. Bits of memory are cells that are not clocked; a model must name them."""
        if in_levels:
            whole = self.cells()
            return {**self.in_levels, **{kind: whole[kind] for kind in (FLIP_FLOPS, MEMORY_BITS) if kind in whole}}
        out: dict[str, int] = {}
        for unit in self.units.values():
            for kind, n in unit.items():
                out[kind] = out.get(kind, 0) + n
        return out


def load_gates(path: Path) -> Gates:
    """The counts in a file. Raises InputError RG0501, RG1110."""
    return gates_from(_document(path, "RG1110"), str(path))


def _document(path: Path, code: str) -> Any:
    """The JSON in a file. Raises InputError RG0501, or with the given code."""
    try:
        return json.loads(read_file(path, _LARGEST))
    except (ValueError, RecursionError) as error:
        raise InputError(Diagnostic(code, f"{path} is not JSON: {error}")) from None


def gates_from(data: Any, name: str) -> Gates:
    """The counts in a JSON document. Raises InputError RG1110."""

    def wrong(message: str) -> InputError:
        return InputError(Diagnostic("RG1110", f"{name}: {message}"))

    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise wrong(f'its schema is not "{SCHEMA}"')
    form, units = data.get("format"), data.get("units")
    try:
        assert isinstance(form, dict)
        w = Format(form["width"], form["frac"])
    except (AssertionError, KeyError, TypeError, ValueError):
        raise wrong("`format` is not one of words: width and frac") from None
    if not isinstance(units, dict) or not units:
        raise wrong("`units` names no function unit")
    levels = None
    if "in levels" in data:
        levelled = data["in levels"]
        levels = levelled.get("levels") if isinstance(levelled, dict) else None
        if type(levels) is not int or not 1 <= levels <= _MOST:
            raise wrong("`in levels` has no number of levels")
        units = {**units, "in levels": levelled.get("cells")}
    for unit, cells in units.items():
        if not isinstance(cells, dict):
            raise wrong(f"`{unit}` is no table of cells")
        for kind, n in cells.items():
            if type(n) is not int or not 0 <= n <= _MOST:
                shown = f"{n!r:.40}" if type(n) is not int or abs(n) < 1 << 100 else "too many"
                raise wrong(f"`{unit:.40}` has {shown} cells of `{kind:.40}`")
    core = data.get("core", "small")
    if not isinstance(core, str):
        raise wrong("`core` is no name of a core")
    return Gates(w, data["units"], name, core, levels, units.get("in levels", {}))


def load_activity(path: Path) -> Activity:
    """The activity in a file. Raises InputError RG0501, RG0514, RG1114."""
    return activity_from(_document(path, "RG1114"), str(path))


def activity_from(data: Any, name: str) -> Activity:
    """The activity in a JSON document. Raises InputError RG1114."""

    def wrong(message: str) -> InputError:
        return InputError(Diagnostic("RG1114", f"{name}: {message}"))

    def number(place: Any, key: str, where: str, least: int = 0) -> int:
        n = place.get(key) if isinstance(place, dict) else None
        if type(n) is not int or not least <= n <= _MOST:
            raise wrong(f"{where} has no number `{key}` of {least} to {_MOST}")
        return n

    def text(place: Any, key: str, where: str) -> str:
        found = place.get(key) if isinstance(place, dict) else None
        if not isinstance(found, str) or not found or len(found) > 1000:
            raise wrong(f"{where} has no text `{key}`")
        return found

    if not isinstance(data, dict) or data.get("schema") != ACTIVITY_SCHEMA:
        raise wrong(f'its schema is not "{ACTIVITY_SCHEMA}"')
    form, runs = data.get("format"), data.get("runs")
    try:
        assert isinstance(form, dict)
        w = Format(form["width"], form["frac"])
    except (AssertionError, KeyError, TypeError, ValueError):
        raise wrong("`format` is not one of words: width and frac") from None
    if not isinstance(runs, list) or not runs:
        raise wrong("`runs` has no run")
    total = 0
    sums: dict[str, dict[str, Counter[str]]] = {}
    for at, run in enumerate(runs):
        where = f"run {at}"
        cycles = number(run, "cycles", where, 1)
        total += cycles
        if run.get("direction") not in (1, -1) or run.get("D") not in (0, 1) or not isinstance(run.get("units"), dict):
            raise wrong(f"{where} has no `direction` of 1 or -1, no `D` of 0 or 1, or no `units`")
        number(run, "instructions", where)
        for unit, kinds in run["units"].items():
            if not isinstance(kinds, dict):
                raise wrong(f"{where}: `{unit:.40}` is no table of cells")
            for kind, part in kinds.items():
                here = f"{where}, `{unit:.40}`, `{kind:.40}`"
                cells, toggles = number(part, "cells", here), number(part, "toggles", here)
                if toggles > cells * cycles:
                    raise wrong(f"{here}: {cells} cells toggle at most {cells * cycles} times in {cycles} cycles")
                found = sums.setdefault(unit, {}).setdefault(kind, Counter())
                found["slots"] += cells * cycles
                found["toggles"] += toggles
    units = {unit: {kind: (n["slots"], n["toggles"]) for kind, n in kinds.items()} for unit, kinds in sums.items()}
    if not any(n for unit in units.values() for kind, (n, _) in unit.items() if not kind.startswith("memory")):
        raise wrong("it has no cells")
    program = data.get("program")
    return Activity(
        w,
        text(data, "core", "it"),
        text(program, "name", "`program`"),
        text(program, "digest", "`program`"),
        total,
        units,
        name,
    )
