"""A reversible circuit as data: gates on lines, simulated on many words at once.

Every gate is its own inverse, so the inverse of a circuit is its gates in reverse order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Gate(NamedTuple):
    """One target: inverted where all controls are 1. Two targets: exchanged where all controls are 1.

    X, CNOT and Toffoli have 0, 1 and 2 controls and one target; a Fredkin gate has one control and two targets.
    """

    controls: tuple[int, ...]
    targets: tuple[int, ...]


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
    for controls, targets in gates:
        condition = ones
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
