"""Netlists that Yosys wrote as JSON, in levels.

A cycle begins at level 0 with inputs, flip-flops and words read from memories. It ends at the last level with outputs, flip-flops and
pins of memories. Inverters are part of other cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from retrograd.hdl.irreversible.levels import Levelling, Levels

_GATES = {"$_AND_": "AND", "$_NAND_": "AND", "$_ANDNOT_": "AND", "$_XOR_": "XOR", "$_XNOR_": "XOR"}
#: clocks are no signals
_CLOCKS = frozenset({"C", "CLK"})

#: a bit of a net; the constants of Yosys are texts
_Bit = int | str


def synthesised_levels(module: Mapping[str, Any]) -> Levels:
    """The levels of a flat module of AND and XOR gates, inverters, flip-flops and memories."""
    inverted: dict[_Bit, _Bit] = {}
    gates: dict[_Bit, tuple[str, tuple[_Bit, ...]]] = {}
    ends: list[_Bit] = []
    for cell in module["cells"].values():
        pins = cell["connections"]
        if cell["type"] == "$_NOT_":
            inverted[pins["Y"][0]] = pins["A"][0]
        elif cell["type"] in _GATES:
            gates[pins["Y"][0]] = _GATES[cell["type"]], (pins["A"][0], pins["B"][0])
        else:
            ways = cell.get("port_directions", {})
            ends += (bit for pin, way in ways.items() if way == "input" and pin not in _CLOCKS for bit in pins[pin])
    for port in module["ports"].values():
        if port["direction"] == "output":
            ends += port["bits"]

    def source(bit: _Bit) -> _Bit:
        while bit in inverted:
            bit = inverted[bit]
        return bit

    found = Levelling()
    for name in _ordered({name: tuple(map(source, pins)) for name, (_, pins) in gates.items()}):
        kind, pins = gates[name]
        found.gate(kind, name, [bit for bit in map(source, pins) if isinstance(bit, int)])
    return found.levels(bit for bit in map(source, ends) if isinstance(bit, int))


def _ordered(gates: Mapping[_Bit, tuple[_Bit, ...]]) -> Iterator[_Bit]:
    """The gates, each behind its sources."""
    done: set[_Bit] = set()
    for last in gates:
        waiting = [last]
        while waiting:
            name = waiting[-1]
            missing = [bit for bit in gates[name] if bit in gates and bit not in done]
            if name not in done and not missing:
                done.add(name)
                yield name
            if name in done:
                waiting.pop()
            else:
                waiting += missing
