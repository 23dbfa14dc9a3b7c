"""A reversible circuit as data: gates on lines, simulated on many words at once, and counted.

Every gate is its own inverse, so the inverse of a circuit is its gates in reverse order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Gate(NamedTuple):
    """One target: inverted where the condition holds. Two targets: exchanged where it holds.

    The condition: each control is 1, or 0 if it is among `negative`. X, CNOT and Toffoli have 0, 1 and 2 controls and
    one target; a Fredkin gate has one control and two targets.
    """

    controls: tuple[int, ...]
    targets: tuple[int, ...]
    #: the controls that must be 0, in the order of `controls`
    negative: tuple[int, ...] = ()


@dataclass(frozen=True)
class Circuit:
    """Gates on the lines 0 … lines − 1. A line that is no input is an ancilla: it begins as 0.

    An ancilla ends as 0 unless it is an output or `garbage`. An exchange of two words without a condition needs no gate, so a
    word may leave on other lines than it entered.
    Raises ValueError for a gate that names a line twice or a line that does not exist.

    >>> half = Circuit(3, (Gate((0, 1), (2,)), Gate((0,), (1,))), {"a": (0,), "b": (1,)}, {"a": (0,), "sum": (1,), "carry": (2,)})
    >>> half.run({"a": 1, "b": 1})
    {'a': 1, 'sum': 0, 'carry': 1}
    """

    lines: int
    gates: tuple[Gate, ...]
    #: word -> its lines before the first gate, lowest bit first
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: word -> its lines after the last gate
    outputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: lines that are left with values that depend on the inputs
    garbage: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for gate in self.gates:
            touched = gate.controls + gate.targets
            if len(gate.targets) not in (1, 2) or len(set(touched)) != len(touched):
                raise ValueError(f"{gate} is no gate")
            if gate.negative and tuple(c for c in gate.controls if c in gate.negative) != gate.negative:
                raise ValueError(f"{gate}: the negative controls are controls, in their order")
            if min(touched) < 0 or max(touched) >= self.lines:
                raise ValueError(f"{gate} has a line outside of 0..{self.lines - 1}")

    @property
    def ancillas(self) -> tuple[int, ...]:
        """The lines that begin as 0."""
        given = {line for word in self.inputs.values() for line in word}
        return tuple(line for line in range(self.lines) if line not in given)

    @property
    def zeros(self) -> tuple[int, ...]:
        """The lines that must end as 0."""
        used = {line for word in self.outputs.values() for line in word} | set(self.garbage)
        return tuple(line for line in range(self.lines) if line not in used)

    def inverse(self) -> Circuit:
        """The circuit that undoes this one. Its inverse is the circuit itself.

        Trap: garbage of the circuit is an input of the inverse, named `garbage`, and must hold the same bits.
        """
        given = dict(self.outputs)
        left = dict(self.inputs)
        if self.garbage:
            given["garbage"] = self.garbage
        spare = left.pop("garbage", ())
        return Circuit(self.lines, self.gates[::-1], given, left, spare)

    def run(self, words: Mapping[str, int]) -> dict[str, int]:
        """The output words for these input words. A word that is not given is 0."""
        state = [0] * self.lines
        for name, lines in self.inputs.items():
            for place, line in enumerate(lines):
                state[line] = words.get(name, 0) >> place & 1
        simulate(self.gates, state, 1)
        return {name: sum(state[q] << i for i, q in enumerate(lines)) for name, lines in self.outputs.items()}


def simulate(gates: Iterable[Gate], state: list[int], ones: int) -> list[int]:
    """Apply the gates to the lines in place. Bit k of `state[line]` is the line in run k; `ones` has a bit for each run."""
    for controls, targets, negative in gates:
        condition = ones
        if negative:
            for line in controls:
                condition &= ~state[line] if line in negative else state[line]
        else:
            for line in controls:
                condition &= state[line]
        if len(targets) == 1:
            state[targets[0]] ^= condition
        else:
            left, right = targets
            differ = (state[left] ^ state[right]) & condition
            state[left] ^= differ
            state[right] ^= differ
    return state


def transposed(words: Sequence[int], width: int) -> list[int]:
    """Rows of bits as columns: bit k of row i of the result is bit i of `words[k]`. It is its own inverse."""
    return [sum((word >> i & 1) << k for k, word in enumerate(words)) for i in range(width)]


def permutation(circuit: Circuit) -> list[int]:
    """The state of all lines after the gates, for each state before; line 0 is the lowest bit. For some 20 lines at most."""
    count = 1 << circuit.lines
    state = transposed(range(count), circuit.lines)
    return transposed(simulate(circuit.gates, state, (1 << count) - 1), count)


# -----------------------------------------------------------------------------
# Counts: gates of each kind, depth, lines, and the costs that the literature gives to them.


@dataclass(frozen=True)
class Counts:
    """The numbers of a circuit.

    `depth` counts the steps when gates on different lines act together; `toffoli_depth` those steps of gates of two controls
    or more and of exchanges with a control. `t` prices a Toffoli or Fredkin gate at 7 and a gate of k > 2 controls as 2k − 3
    Toffoli gates with k − 2 clean ancillas. `quantum_cost` is that of RevLib's table, with the lines that a gate
    leaves spare, and two
    CNOT gates more for an exchange. `peres` counts neighbours that are a Peres gate or its inverse: a Toffoli gate, and a CNOT gate
    between its controls. As one gate such a pair costs 4 in place of 6, so that a netlist of Peres gates costs quantum_cost − 2·peres.
    `t_measured` prices a Toffoli gate onto an ancilla that is 0 at 4 T gates, and the gate that undoes it at 0, since a measurement does it.
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
    #: lines that begin as 0: the largest number held at a time, since the pool gives out released lines first
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


def _quantum_cost(controls: int, width: int, negative: int = 0) -> int:
    """The cost of X with controls in a netlist of `width` lines, of which lines that the gate does not use are spare.

    Negative controls cost nothing beside a positive one. The table has no gate whose controls are all negative: it is
    made of the gate with one positive control, between two X gates on that line, or, for one control, behind an X gate
    on the target.

    Without a spare line it is 2ⁿ − 3, for a gate of n lines; with one, 24n − 88 for five lines or more, and 52 for n
    = 6, 100 for n = 8;
    with n − 3, 12n − 34. The least counts. Source: D. Maslov's table of reversible benchmarks, which RevLib uses; A.
    Barenco et al., Phys. Rev. A 52, 3457 (1995).
    """
    n = controls + 1
    costs = [1 if n < 3 else (1 << n) - 3]
    if n > 4 and width > n:
        costs.append({6: 52, 8: 100}.get(n, 24 * n - 88))
    if n > 4 and width >= 2 * n - 3:
        costs.append(12 * n - 34)
    return min(costs) + (min(negative, 2) if negative == controls else 0)


def _peres_gates(gates: Sequence[Gate]) -> int:
    """Pairs of neighbours that form a Peres gate or its inverse. A gate belongs to at most one pair."""
    found = place = 0
    while place + 1 < len(gates):
        small, large = sorted(gates[place : place + 2], key=lambda gate: len(gate.controls))
        pair = (
            not small.negative + large.negative
            and len(large.controls) == 2
            and len(large.targets) == len(small.targets) == len(small.controls) == 1
        )
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
        controls, targets, _ = gate
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
    for controls, targets, negative in circuit.gates:
        n, lines = len(controls), controls + targets
        if len(targets) == 1:
            single[n] = single.get(n, 0) + 1
            t, cost = t + _t_count(n), cost + _quantum_cost(n, circuit.lines, len(negative))
        else:
            # Exchange of x and y: CNOT, an exchange's control added to a CNOT the other way, CNOT.
            swap, fredkin = swap + (not n), fredkin + bool(n)
            t, cost = t + _t_count(n + 1), cost + 2 + _quantum_cost(n + 1, circuit.lines, len(negative))
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
