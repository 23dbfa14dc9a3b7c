"""Counts of a circuit: gates of each kind, depth, lines, and the costs that the literature gives to them."""

from __future__ import annotations

from dataclasses import dataclass

from retrograd.hdl.reversible.circuit import Circuit


@dataclass(frozen=True)
class Counts:
    """The numbers of a circuit.

    `depth` counts the steps when gates on different lines act together; `toffoli_depth` those steps of gates of two controls
    or more and of exchanges with a control. `t` prices a Toffoli or Fredkin gate at 7 and a gate of k > 2 controls as 2k − 3
    Toffoli gates with k − 2 clean ancillas. `quantum_cost` is that of RevLib: 1 for up to one control, 2^(k+1) − 3 for k, and two
    CNOT gates more for an exchange.
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

    def as_dict(self) -> dict[str, object]:
        """The counts for JSON."""
        return {**self.__dict__, "mct": {str(k): n for k, n in sorted(self.mct.items())}}


def _t_count(controls: int) -> int:
    if controls < 2:
        return 0
    return 7 if controls == 2 else 7 * (2 * controls - 3)


def _quantum_cost(controls: int) -> int:
    return 1 if controls < 2 else (1 << controls + 1) - 3


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
    )  # fmt: skip
