"""Counts of a circuit: gates of each kind, depth, lines, and the costs that the literature gives to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retrograd.hdl.reversible.circuit import Circuit, Gate


@dataclass(frozen=True)
class Counts:
    """The numbers of a circuit.

    `depth` counts the steps when gates on different lines act together; `toffoli_depth` those steps of gates of two controls
    or more and of exchanges with a control. `t` prices a Toffoli or Fredkin gate at 7 and a gate of k > 2 controls as 2k − 3
    Toffoli gates with k − 2 clean ancillas. `quantum_cost` is that of RevLib: 1 for up to one control, 2^(k+1) − 3 for k, and two
    CNOT gates more for an exchange. `peres` counts neighbours that are a Peres gate or its inverse: a Toffoli gate, and a CNOT gate
    between its controls. As one gate such a pair costs 4 in place of 6, so that a netlist of Peres gates costs quantum_cost − 2·peres.
    `t_measured` prices a Toffoli gate onto an ancilla that is 0 at 4 T gates, and its undoing at none, since a measurement does it.
    (A. Peres, Reversible logic and quantum computers, 1985; C. Gidney, Halving the cost of quantum addition, 2018.)
    """

    width: int
    gates: int
    x: int
    cnot: int
    toffoli: int
    #: number of controls, three or more -> gates
    mct: dict[int, int]
    swap: int
    #: exchanges with one control or more
    fredkin: int
    depth: int
    toffoli_depth: int
    #: lines that begin as 0: the most that are held at a time, since the pool hands out a released line first
    ancillas: int
    garbage: int
    t: int
    quantum_cost: int
    peres: int
    t_measured: int

    def as_dict(self) -> dict[str, object]:
        """The counts for JSON."""
        return {**self.__dict__, "mct": {str(k): n for k, n in sorted(self.mct.items())}}


def _t_count(controls: int) -> int:
    if controls < 2:
        return 0
    return 7 if controls == 2 else 7 * (2 * controls - 3)


def _quantum_cost(controls: int) -> int:
    return 1 if controls < 2 else (1 << controls + 1) - 3


def _peres_gates(gates: Sequence[Gate]) -> int:
    """Neighbours that are a Peres gate or its inverse; no gate is a part of two."""
    found = place = 0
    while place + 1 < len(gates):
        small, large = sorted(gates[place : place + 2], key=lambda gate: len(gate.controls))
        pair = len(large.controls) == 2 and len(large.targets) == len(small.targets) == len(small.controls) == 1
        if pair and {*small.controls, *small.targets} == {*large.controls}:
            found, place = found + 1, place + 1
        place += 1
    return found


def _t_with_measurement(circuit: Circuit) -> int:
    """T gates where a Toffoli gate onto a line that is 0 makes a temporary AND, which a measurement undoes.

    A line is 0 where the gates onto it have undone each other, the last first. Trap: a gate undoes an equal gate where its controls
    have their words of then, which is so in circuits that uncompute.
    """
    onto: dict[int, list[Gate]] = {line: [] for line in circuit.ancillas}
    zero = set(circuit.zeros)
    total = 0
    for gate in circuit.gates:
        controls, targets = gate
        history = onto.get(targets[0]) if len(targets) == 1 and targets[0] in zero else None
        cost = _t_count(len(controls) + len(targets) - 1)
        if history is None or len(controls) != 2:
            total += cost
        elif history == [gate]:
            pass
        else:
            total += cost if history else 4
        if history is None:
            for line in targets:
                onto.pop(line, None)
        elif history and history[-1] == gate:
            history.pop()
        else:
            history.append(gate)
    return total


def count(circuit: Circuit) -> Counts:
    """Count the circuit.

    >>> from retrograd.hdl.reversible.circuit import Gate
    >>> found = count(Circuit(3, (Gate((0, 1), (2,)), Gate((0,), (1,)))))
    >>> found.toffoli, found.cnot, found.depth, found.t, found.quantum_cost
    (1, 1, 2, 7, 6)
    """
    single: dict[int, int] = {}
    swap = fredkin = t = cost = 0
    level, heavy = [0] * circuit.lines, [0] * circuit.lines
    for controls, targets in circuit.gates:
        n, lines = len(controls), controls + targets
        if len(targets) == 1:
            single[n] = single.get(n, 0) + 1
            t, cost = t + _t_count(n), cost + _quantum_cost(n)
        else:
            # Exchange of x and y: CNOT, an exchange's control added to a CNOT the other way, CNOT.
            swap, fredkin = swap + (not n), fredkin + bool(n)
            t, cost = t + _t_count(n + 1), cost + 2 + _quantum_cost(n + 1)
        step = max(level[line] for line in lines) + 1
        weight = max(heavy[line] for line in lines) + (n + len(targets) > 2)
        for line in lines:
            level[line], heavy[line] = step, weight
    return Counts(
        width=circuit.lines, gates=len(circuit.gates), x=single.get(0, 0), cnot=single.get(1, 0), toffoli=single.get(2, 0),
        mct={k: v for k, v in single.items() if k > 2}, swap=swap, fredkin=fredkin, depth=max(level, default=0),
        toffoli_depth=max(heavy, default=0), ancillas=len(circuit.ancillas), garbage=len(circuit.garbage), t=t, quantum_cost=cost,
        peres=_peres_gates(circuit.gates), t_measured=_t_with_measurement(circuit),
    )  # fmt: skip
