"""Circuits of irreversible gates: the information that each gate loses, against that of the whole.

gate by gate = Σ H(inputs of the gate) − H(its output);  whole = H(inputs) − H(outputs)

A gate by itself dissipates at least kT ln 2 for each bit of the first difference. The rest above the whole is
the circuit's loss of correlations (D. H. Wolpert, A. Kolchinsky, New J. Phys. 22, 063047, 2020). A reversible gate loses nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrograd.information.distributions import MOST_INPUTS
from retrograd.information.errors import refuse
from retrograd.information.estimators import entropy_of, labels

_Bits = NDArray[np.bool_]

#: kind of a gate, by the names of synthesis -> (number of inputs, function)
KINDS: dict[str, tuple[int, Callable[..., Any]]] = {
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
    "MUX": (3, lambda a, b, s: (a & ~s) | (b & s)),
}


class LogicGate(NamedTuple):
    """A gate of a kind of `KINDS`, from wires to a wire."""

    kind: str
    inputs: tuple[str, ...]
    output: str


class LogicLosses(NamedTuple):
    """Bits that are lost."""

    #: of each gate, in their order
    gates: tuple[float, ...]
    whole: float

    @property
    def gate_by_gate(self) -> float:
        """The sum over the gates."""
        return sum(self.gates)


@dataclass(frozen=True)
class Logic:
    """Gates in an order in which each wire is computed before it is used.

    Raises InputError RG1603 for a wire that is not there, or that has two sources; for an unknown kind, or a wrong number of inputs.

    >>> half = Logic(("a", "b"), (LogicGate("XOR", ("a", "b"), "sum"), LogicGate("AND", ("a", "b"), "carry")), ("sum", "carry"))
    >>> found = half.losses()
    >>> print(f"{found.gate_by_gate:.4f} {found.whole:.4f}")
    2.1887 0.5000
    """

    inputs: tuple[str, ...]
    gates: tuple[LogicGate, ...]
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        wires = set(self.inputs)
        if len(wires) < len(self.inputs):
            raise refuse("RG1603", "an input is named twice")
        for gate in self.gates:
            if gate.kind not in KINDS:
                raise refuse("RG1603", f"`{gate.kind}` is no kind of gate", f"Kinds are {', '.join(KINDS)}.")
            if len(gate.inputs) != KINDS[gate.kind][0]:
                raise refuse(
                    "RG1603",
                    f"{gate.kind} takes {KINDS[gate.kind][0]} inputs, and `{gate.output}` has {len(gate.inputs)}",
                )
            for wire in gate.inputs:
                if wire not in wires:
                    raise refuse("RG1603", f"`{gate.output}` uses `{wire}`, which no input or earlier gate is")
            if gate.output in wires:
                raise refuse("RG1603", f"`{gate.output}` has two sources")
            wires.add(gate.output)
        for wire in self.outputs:
            if wire not in wires:
                raise refuse("RG1603", f"the output `{wire}` has no source")

    def run(self, state: Mapping[str, _Bits]) -> dict[str, _Bits]:
        """All wires for arrays of input bits."""
        wires = dict(state)
        for kind, inputs, output in self.gates:
            wires[output] = KINDS[kind][1](*(wires[wire] for wire in inputs))
        return wires

    def losses(self, distribution: Mapping[Sequence[int], float] | None = None) -> LogicLosses:
        """The bits that are lost, for input bits of these probabilities; without, for independent uniform bits.

        Raises InputError RG1601 for more than 65,536 inputs.
        """
        if distribution is None:
            if 1 << len(self.inputs) > MOST_INPUTS:
                raise refuse(
                    "RG1601", f"{len(self.inputs)} input bits are too many to be enumerated", "Give probabilities."
                )
            rows: Sequence[Sequence[int]] = list(itertools.product((0, 1), repeat=len(self.inputs)))
            p = np.full(len(rows), 1 / len(rows))
        else:
            rows, p = list(distribution), np.array([*distribution.values()], float)
            if any(len(row) != len(self.inputs) for row in rows):
                raise refuse("RG1601", f"each key has a bit for each of the {len(self.inputs)} inputs")
            if not (p >= 0).all() or abs(p.sum() - 1) > 1e-9:
                raise refuse("RG1601", f"the probabilities have the sum {p.sum():.9g}")
        table = np.array(rows, bool).reshape(len(rows), len(self.inputs))
        wires = self.run({name: table[:, i] for i, name in enumerate(self.inputs)})

        def entropy(names: Sequence[str]) -> float:
            return entropy_of(labels([wires[name] for name in names], len(rows)), p).bits

        gates = (entropy(gate.inputs) - entropy((gate.output,)) for gate in self.gates)
        return LogicLosses(
            tuple(max(0.0, lost) for lost in gates), max(0.0, entropy(self.inputs) - entropy(self.outputs))
        )
