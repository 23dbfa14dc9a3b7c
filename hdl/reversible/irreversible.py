"""The function of a reversible circuit as an irreversible netlist of AND, XOR, MAJ3 and MUX gates, and such netlists in levels.

x ⊕ x = 0,    (x ⊕ y) ⊕ y = x,    z ⊕ (p ⊕ z)(q ⊕ z) = MAJ3(p, q, z),    z ⊕ (p ⊕ z)·s = p where s, else z

level of a gate = 1 + max (level of its source + ⌈log₂ fan-out of the source⌉)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

from retrograd.hdl.reversible.circuit import Circuit

# -----------------------------------------------------------------------------
# The network.
#
# The gates of the circuit are applied to symbols. Equal gates are one gate. By the first two rules, gates that undo
# each
# other vanish, so the netlist has no uncomputation. Gates that no output needs are left out.

#: a signal: twice the number of its node, and 1 more where it is inverted
Literal = int
FALSE: Literal = 0
TRUE: Literal = 1
#: terms of a sum modulo 2 that are collected; sums of more are terms themselves
_MOST_TERMS = 3


class Node(NamedTuple):
    """A gate of some kind on signals; MUX has (value where 1, value where 0, selector). Inputs have the kind `input`."""

    kind: str
    fanins: tuple[Literal, ...] = ()


@dataclass
class Network:
    """Gates in an order in which each is computed before it is used. Node 0 is the constant 0. Inverters are free."""

    nodes: list[Node] = field(default_factory=lambda: [Node("constant")])
    #: word -> its bits, lowest first
    outputs: dict[str, tuple[Literal, ...]] = field(default_factory=dict)
    inputs: dict[str, tuple[Literal, ...]] = field(default_factory=dict)
    _known: dict[Node, Literal] = field(default_factory=dict, repr=False)
    #: a pair of nodes -> their sum modulo 2, however it was computed
    _sums: dict[tuple[int, int], Literal] = field(default_factory=dict, repr=False)

    def _node(self, kind: str, *fanins: Literal) -> Literal:
        node = Node(kind, fanins)
        if kind == "input" or node not in self._known:
            self._known[node] = 2 * len(self.nodes)
            self.nodes.append(node)
        return self._known[node]

    def input(self, name: str, width: int) -> tuple[Literal, ...]:
        """A word of inputs."""
        self.inputs[name] = tuple(self._node("input") for _ in range(width))
        return self.inputs[name]

    def both(self, x: Literal, y: Literal) -> Literal:
        """x AND y."""
        x, y = sorted((x, y))
        if x == FALSE or x ^ y == 1:
            return FALSE
        if x in (TRUE, y):
            return y
        return self._node("AND", x, y)

    def differ(self, x: Literal, y: Literal) -> Literal:
        """x XOR y."""
        inverted = (x ^ y) & 1
        x, y = sorted((x & ~1, y & ~1))
        if x == y:
            return inverted
        if x == FALSE:
            return y ^ inverted
        if (x, y) not in self._sums:
            out = self._choice(x, y) or self._choice(y, x) or self._node("XOR", x, y)
            for a, b, c in ((x, y, out), (out, x, y), (out, y, x)):
                self._sums.setdefault((min(a & ~1, b & ~1), max(a & ~1, b & ~1)), c ^ (a ^ b) & 1)
        return self._sums[x, y] ^ inverted

    def _choice(self, x: Literal, product: Literal) -> Literal | None:
        """x XOR product where x, or a term of x, makes it MAJ3 or MUX."""
        if self.nodes[product >> 1].kind != "AND":
            return None
        found = self._chosen(x, product)
        if found is None and self.nodes[x >> 1].kind == "XOR":
            terms = self.nodes[x >> 1].fanins
            for z, rest in (terms, terms[::-1]):
                part = self._chosen(z, product)
                if part is not None:
                    return self.differ(part, rest)
        return found

    def _sum(self, x: Literal, y: Literal) -> Literal | None:
        """x XOR y where a signal is known to be it."""
        low, high = sorted((x & ~1, y & ~1))
        found = self._sums.get((low, high))
        return None if found is None else found ^ ((x ^ y) & 1)

    def _chosen(self, z: Literal, product: Literal) -> Literal | None:
        """z XOR product as MAJ3 or MUX, where a factor of the product is a sum with z."""
        first, second = self.nodes[product >> 1].fanins
        p, q = self._sum(first, z), self._sum(second, z)
        if p is not None and q is not None:
            return self._node("MAJ3", *sorted((p, q, z)))
        if p is not None:
            return self._node("MUX", p, z, second)
        return None if q is None else self._node("MUX", q, z, first)

    def gates(self) -> list[int]:
        """The gates that outputs need, in order."""
        needed = [False] * len(self.nodes)
        for bits in self.outputs.values():
            for bit in bits:
                needed[bit >> 1] = True
        for at in range(len(self.nodes) - 1, 0, -1):
            if needed[at]:
                for bit in self.nodes[at].fanins:
                    needed[bit >> 1] = True
        return [at for at, node in enumerate(self.nodes) if needed[at] and node.fanins]

    def shared_sums(self) -> Network:
        """The same functions, with each term at most once in a sum modulo 2. Sums share the partial sums of the terms that were computed first."""
        out = Network()
        #: node -> the terms of its sum, which are no sums, and whether it is inverted
        sums: dict[int, tuple[frozenset[Literal], int]] = {0: (frozenset(), 0)}
        for name, bits in self.inputs.items():
            for bit, given in zip(bits, out.input(name, len(bits)), strict=True):
                sums[bit >> 1] = frozenset((given,)), 0

        def made(bit: Literal) -> Literal:
            terms, inverted = sums[bit >> 1]
            total = reduce(out.differ, sorted(terms), FALSE) ^ inverted
            return total ^ (bit & 1)

        for at in self.gates():
            kind, fanins = self.nodes[at]
            if kind == "XOR":
                (one, first), (other, second) = (sums[bit >> 1] for bit in fanins)
                sums[at] = one ^ other, first ^ second
                if len(one ^ other) > _MOST_TERMS:
                    total = out.differ(*map(made, fanins))
                    sums[at] = frozenset((total & ~1,)), total & 1
                continue
            total = out.both(*map(made, fanins)) if kind == "AND" else out._node(kind, *map(made, fanins))
            sums[at] = frozenset((total & ~1,)) if total > 1 else frozenset(), total & 1
        out.outputs = {name: tuple(map(made, bits)) for name, bits in self.outputs.items()}
        return out

    def counts(self) -> dict[str, int]:
        """Kind of gate -> number."""
        return dict(sorted(Counter(self.nodes[at].kind for at in self.gates()).items()))

    def run(self, words: Mapping[str, Sequence[int]], ones: int = 1) -> dict[str, list[int]]:
        """The bits of the outputs; bit k of each is its value in run k, as in `circuit.simulate`."""
        value = [0] * len(self.nodes)
        for name, bits in self.inputs.items():
            for bit, given in zip(bits, words[name], strict=True):
                value[bit >> 1] = given

        def at(bit: Literal) -> int:
            return value[bit >> 1] ^ (ones if bit & 1 else 0)

        for place in self.gates():
            kind, fanins = self.nodes[place]
            value[place] = _FUNCTIONS[kind](*map(at, fanins))
        return {name: [at(bit) for bit in bits] for name, bits in self.outputs.items()}


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "AND": lambda x, y: x & y,
    "XOR": lambda x, y: x ^ y,
    "MAJ3": lambda x, y, z: x & y | x & z | y & z,
    "MUX": lambda x, y, s: x & s | y & ~s,
}


def network_of(circuit: Circuit, outputs: Iterable[str] | None = None) -> Network:
    """The function of a circuit, for the named outputs, or for all outputs that differ from their inputs.

    >>> from retrograd.hdl.reversible.builder import takahashi_adder
    >>> network_of(takahashi_adder(8)).counts()
    {'AND': 1, 'MAJ3': 7, 'XOR': 15}
    """
    net = Network()
    state: list[Literal] = [FALSE] * circuit.lines
    for name, lines in circuit.inputs.items():
        for line, bit in zip(lines, net.input(name, len(lines)), strict=True):
            state[line] = bit
    before = list(state)
    for controls, targets, negative in circuit.gates:
        condition = reduce(net.both, sorted(state[line] ^ (line in negative) for line in controls), TRUE)
        if len(targets) == 1:
            state[targets[0]] = net.differ(state[targets[0]], condition)
        else:
            left, right = targets
            change = net.both(condition, net.differ(state[left], state[right]))
            state[left], state[right] = net.differ(state[left], change), net.differ(state[right], change)
    named = set(circuit.outputs if outputs is None else outputs)
    for name, lines in circuit.outputs.items():
        bits = tuple(state[line] for line in lines)
        if name in named and (
            outputs is not None or bits != tuple(before[line] for line in circuit.inputs.get(name, ()))
        ):
            net.outputs[name] = bits
    return net.shared_sums()


# -----------------------------------------------------------------------------
# Levels: each cell passes its signal to the next level, so that signals are split and delayed by cells.
#
# In an AC-clocked superconducting circuit a cell drives one cell of the next level. A signal with k sinks needs k −
# 1 splitters, and a sink that is
# more than a level away needs a buffer in each level between. Both are cells of one level, and a tree with the
# fewest of them is counted: of
# n connections that leave a level, ⌊n/2⌋ come from splitters, and one from a buffer if n is odd. Outputs leave at
# the last level.
# XOR and MUX are two AND and an OR, in two levels; inverters are part of other cells. (C. L. Ayala et al., A
# semi-custom design methodology
# and environment for implementing superconductor adiabatic quantum-flux-parametron microprocessors, Supercond. Sci.
# Technol. 33, 054006, 2020.)


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

    >>> from retrograd.hdl.reversible.irreversible import network_of
    >>> from retrograd.hdl.reversible.builder import takahashi_adder
    >>> levels_of(network_of(takahashi_adder(4))).levels
    12
    """
    found = Levelling()
    for at in net.gates():
        kind, fanins = net.nodes[at]
        found.gate(kind, at, [bit >> 1 for bit in fanins if bit > 1])
    return found.levels(bit >> 1 for bits in net.outputs.values() for bit in bits if bit > 1)


# -----------------------------------------------------------------------------
# Levels of a netlist that Yosys wrote as JSON.
#
# A cycle begins at level 0 with inputs, flip-flops and words read from memories. It ends at the last level with
# outputs, flip-flops and
# pins of memories. Inverters are part of other cells.

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
