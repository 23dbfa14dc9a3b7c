"""Netlists in levels: each cell passes its signal to the next level, so that signals are split and delayed by cells.

level of a gate = 1 + max (level of its source + ⌈log₂ fan-out of the source⌉)

In an AC-clocked superconducting circuit a cell drives one cell of the next level. A signal with k sinks needs k − 1 splitters, and a sink that is
more than a level away needs a buffer in each level between. Both are cells of one level, and a tree with the fewest of them is counted: of
n connections that leave a level, ⌊n/2⌋ come from splitters, and one from a buffer if n is odd. Outputs leave at the last level.
XOR and MUX are two AND and an OR, in two levels; inverters are part of other cells. (C. L. Ayala et al., A semi-custom design methodology
and environment for implementing superconductor adiabatic quantum-flux-parametron microprocessors, Supercond. Sci. Technol. 33, 054006, 2020.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from retrograd.hdl.irreversible.network import Network


@dataclass(frozen=True)
class Levels:
    """A netlist in levels."""

    #: kind of cell -> number: AND, OR, MAJ3, BUF, splitter
    cells: dict[str, int]
    levels: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"levels": self.levels, "cells": dict(sorted(self.cells.items()))}


class Levelling:
    """Cells in an order in which each source comes before its sinks; `levels` counts them."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        #: signal -> the gates that use it
        self._sinks: dict[Hashable, list[int]] = {}
        self._gates: list[tuple[Hashable, tuple[Hashable, ...]]] = []

    def cell(self, kind: str, name: Hashable, fanins: Iterable[Hashable]) -> None:
        """A cell by the name of its output."""
        used = tuple(fanins)
        self._kinds[kind] += 1
        for signal in used:
            self._sinks.setdefault(signal, []).append(len(self._gates))
        self._gates.append((name, used))

    def gate(self, kind: str, name: Hashable, fanins: Sequence[Hashable]) -> None:
        """A gate in cells of the library: XOR is (x AND NOT y) OR (NOT x AND y), MUX is (x AND s) OR (y AND NOT s)."""
        if kind in ("XOR", "MUX"):
            pairs = (fanins, fanins) if kind == "XOR" else ((fanins[0], fanins[2]), (fanins[1], fanins[2]))
            inner = [(name, k) for k in range(2)]
            for half, pair in zip(inner, pairs, strict=True):
                self.cell("AND", half, pair)
            self.cell("OR", name, inner)
        else:
            self.cell(kind, name, fanins)

    def levels(self, outputs: Iterable[Hashable]) -> Levels:
        """The levels, with the splitters and buffers. Signals that no cell makes enter at level 0; constants are to be left out."""
        ends = Counter(outputs)
        splits = {signal: (len(sinks) + ends[signal] - 1).bit_length() for signal, sinks in self._sinks.items()} | {
            signal: (n - 1).bit_length() for signal, n in ends.items() if signal not in self._sinks
        }
        level: dict[Hashable, int] = {}
        at: list[int] = []
        for name, used in self._gates:
            at.append(1 + max((level.get(signal, 0) + splits[signal] for signal in used), default=0))
            level[name] = at[-1]
        last = max((level.get(signal, 0) + splits[signal] for signal in ends), default=0)
        last = max([last, *at])
        found = Counter(self._kinds)
        for signal in splits:
            sinks = [at[gate] for gate in self._sinks.get(signal, ())] + [last + 1] * ends[signal]
            splitters, buffers = _tree(level.get(signal, 0), sinks)
            found["splitter"] += splitters
            found["BUF"] += buffers
        return Levels({kind: n for kind, n in found.items() if n}, last)


def _tree(source: int, sinks: list[int]) -> tuple[int, int]:
    """(splitters, buffers) between a source and the levels of its sinks, the fewest."""
    waiting = Counter(sinks)
    splitters = buffers = connections = 0
    places = sorted(waiting, reverse=True)
    for here, below in zip(places, [*places[1:], source + 1], strict=True):
        connections += waiting[here]
        # Connections into level `here` leave the level before it; one connection is delayed by a buffer in each level.
        place = here
        while place > below:
            place -= 1
            if connections == 1:
                buffers += place + 1 - below
                break
            splitters, buffers = splitters + connections // 2, buffers + connections % 2
            connections = (connections + 1) // 2
    return splitters, buffers


def levels_of(net: Network) -> Levels:
    """A network in levels.

    >>> from retrograd.hdl.irreversible.network import network_of
    >>> from retrograd.hdl.reversible.adders import takahashi_adder
    >>> levels_of(network_of(takahashi_adder(4))).levels
    12
    """
    found = Levelling()
    for at in net.gates():
        kind, fanins = net.nodes[at]
        found.gate(kind, at, [bit >> 1 for bit in fanins if bit > 1])
    return found.levels(bit >> 1 for bits in net.outputs.values() for bit in bits if bit > 1)
