"""Netlists as far as their price depends on them.

A reversible gate begins when all of its lines are free, and takes the levels of its kind. A line is held from the first level, or from its first
gate if it begins as 0, to the last level, or to its last gate if it ends as 0. Between two of its gates it is a `line` for each level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from retrograd.simulator.energy.gates import lost_bits

#: (controls, targets), as in the circuits of the hardware
_Gate = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class IrreversibleShape:
    """Gates that lose information; one evaluation enters in each cycle of the clock."""

    #: kind of gate -> number
    gates: Mapping[str, int]
    #: kind of cell -> number, in levels, with splitters and buffers
    in_levels: Mapping[str, int]
    levels: int

    @property
    def lost_bits(self) -> float:
        """The bits that all gates lose, each for independent uniform inputs."""
        return sum(n * lost_bits(kind) for kind, n in self.gates.items())


class Timed(NamedTuple):
    """A reversible netlist in levels."""

    #: kind of gate -> number
    kinds: Mapping[str, int]
    levels: int
    #: levels in which a line is held and no gate acts on it, over all lines
    idle: int
    #: levels in which a line is held, over all lines
    held: int


@dataclass(frozen=True)
class ReversibleShape:
    """Gates on lines, in order; one evaluation enters in each cycle of the clock."""

    lines: int
    gates: Sequence[_Gate] = field(repr=False)
    #: lines that begin with data
    inputs: frozenset[int] = frozenset()
    #: lines that end with data, garbage included
    outputs: frozenset[int] = frozenset()
    garbage: int = 0

    def timed(self, levels: Mapping[str, int], *, peres: bool = False) -> Timed:
        """The netlist in levels; a kind that is not in `levels` takes one. With `peres`, neighbours that are a Peres gate are one gate."""
        kinds: Counter[str] = Counter()
        free = [0] * self.lines
        begin: dict[int, int] = dict.fromkeys(self.inputs, 0)
        busy = 0
        for lines, parts in _peres(self.gates) if peres else map(_parts, self.gates):
            for kind, n in parts:
                kinds[kind] += n
            takes = sum(n * levels.get(kind, 1) for kind, n in parts)
            start = max(free[line] for line in lines)
            for line in lines:
                begin.setdefault(line, start)
                free[line] = start + takes
            busy += takes * len(lines)
        last = max(free, default=0)
        held = sum((last if line in self.outputs else free[line]) - first for line, first in begin.items())
        return Timed(dict(kinds), last, held - busy, held)


def _parts(gate: _Gate) -> tuple[tuple[int, ...], list[tuple[str, int]]]:
    """The lines of a gate, and the kinds that it is made of, one after the other.

    A gate of k > 2 controls is 2k − 3 Toffoli gates, with k − 2 ancillas that are not counted as lines. An exchange with more than one control is two
    CNOT gates around such a gate.
    """
    controls, targets = gate
    k = len(controls)
    if len(targets) == 2:
        parts = [("swap", 1)] if not k else [("Fredkin", 1)] if k == 1 else [("CNOT", 2), ("Toffoli", 2 * k - 1)]
    else:
        parts = [(("X", "CNOT", "Toffoli")[k], 1)] if k < 3 else [("Toffoli", 2 * k - 3)]
    return controls + targets, parts


def _peres(gates: Sequence[_Gate]) -> Iterator[tuple[tuple[int, ...], list[tuple[str, int]]]]:
    """The parts of all gates, where a Toffoli gate beside a CNOT gate between its controls is a Peres gate."""
    place = 0
    while place < len(gates):
        pair = sorted(gates[place : place + 2], key=lambda gate: len(gate[0]))
        if len(pair) == 2 and _is_peres(*pair):
            controls, targets = pair[1]
            yield controls + targets, [("Peres", 1)]
            place += 2
        else:
            yield _parts(gates[place])
            place += 1


def _is_peres(small: _Gate, large: _Gate) -> bool:
    single = len(large[1]) == len(small[1]) == len(small[0]) == 1
    return single and len(large[0]) == 2 and {*small[0], *small[1]} == {*large[0]}
