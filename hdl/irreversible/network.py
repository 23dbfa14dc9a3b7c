"""The function of a reversible circuit as an irreversible netlist of AND, XOR, MAJ3 and MUX gates.

x ⊕ x = 0,    (x ⊕ y) ⊕ y = x,    z ⊕ (p ⊕ z)(q ⊕ z) = MAJ3(p, q, z),    z ⊕ (p ⊕ z)·s = p where s, else z

The gates of the circuit are applied to symbols. Equal gates are one gate, and by the first two rules gates that undo others leave nothing,
so that the netlist has no uncomputation. Gates that no output needs are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

from retrograd.hdl.reversible.circuit import Circuit

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
        """The same functions, where each sum modulo 2 has every term once, and sums share those of their terms that were computed first."""
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
    """The function of a circuit; of its outputs, those named, or all that are not equal to an input.

    >>> from retrograd.hdl.reversible.adders import takahashi_adder
    >>> network_of(takahashi_adder(8)).counts()
    {'AND': 1, 'MAJ3': 7, 'XOR': 15}
    """
    net = Network()
    state: list[Literal] = [FALSE] * circuit.lines
    for name, lines in circuit.inputs.items():
        for line, bit in zip(lines, net.input(name, len(lines)), strict=True):
            state[line] = bit
    before = list(state)
    for controls, targets in circuit.gates:
        condition = reduce(net.both, sorted(state[line] for line in controls), TRUE)
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
