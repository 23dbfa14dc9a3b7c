"""Gate counts of the datapath by function unit and kind of cell, from synthesis of the hardware.

    {"schema": "retrograd.gates/1", "format": {"width": 32, "frac": 16}, "core": "small",
     "units": {"logic unit": {"AND": 12, "DFF": 3}, …}, "in levels": {"levels": 343, "cells": {"AND": 15, "BUF": 200, …}}}

`in levels` has the whole core with the splitters and buffers of a technology that is clocked level by level, and no flip-flops. A format without such a file has no gate counts, and charges that need them are not modelled.

A gate of n inputs, of which m of the 2ⁿ values give 1, loses H(inputs) − H(output) = n − h(m / 2ⁿ) bits of independent uniform inputs,
h(p) = −p log₂ p − (1 − p) log₂ (1 − p).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.files import read_file
from retrograd.isa.words import Format

SCHEMA = "retrograd.gates/1"
#: bytes; larger files are refused
_LARGEST = 1 << 20
#: the cell of memories: no gate, and not included in `any`
MEMORY_BITS = "memory bits"
FLIP_FLOPS = "DFF"
#: limit for the cells of a kind in a unit, far above that of any chip
_MOST = 1 << 50

#: kind of a gate that loses information -> (its inputs, the number of their values that give 1)
_IRREVERSIBLE = {
    **dict.fromkeys(("AND", "NOR", "ANDNOT"), (2, 1)), **dict.fromkeys(("OR", "NAND", "ORNOT"), (2, 3)),
    **dict.fromkeys(("XOR", "XNOR"), (2, 2)), **dict.fromkeys(("MUX", "MAJ3"), (3, 4)), "MAJ5": (5, 16),
}  # fmt: skip


def lost_bits(kind: str) -> float:
    """The bits that a gate of a kind loses, for independent uniform inputs; a flip-flop loses the bit that it held.

    >>> print(f"{lost_bits('AND'):.4f} {lost_bits('XOR')} {lost_bits('NOT')} {lost_bits('DFF')}")
    1.1887 1.0 0.0 1.0
    """
    if kind == "DFF":
        return 1.0
    inputs, ones = _IRREVERSIBLE.get(kind, (0, 0))
    share = ones / (1 << inputs)
    return inputs + sum(p * math.log2(p) for p in (share, 1 - share) if p)


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
    try:
        data = json.loads(read_file(path, _LARGEST))
    except (ValueError, RecursionError) as error:
        raise InputError(Diagnostic("RG1110", f"{path} is not JSON: {error}")) from None
    return gates_from(data, str(path))


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
