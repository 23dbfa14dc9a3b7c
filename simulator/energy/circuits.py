"""Reversible circuits of Toffoli, CNOT and NOT gates: the adder of Cuccaro, Draper, Kutin and Moulton.

    (a, b, z) → (a, a + b, z ⊕ carry)

2n − 1 Toffoli, 5n − 3 CNOT and 2n − 4 NOT gates, one ancilla, for n ≥ 4: the price of an addition that
erases nothing, for comparison with a conventional adder. Source: A new quantum ripple-carry addition circuit, quant-ph/0410184 (2004), section 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Gate(NamedTuple):
    """`target ⊕= AND of controls`: two make a Toffoli gate, one a CNOT, none a NOT. Each is its own inverse."""

    controls: tuple[str, ...]
    target: str

    @property
    def kind(self) -> str:
        return ("NOT", "CNOT", "Toffoli")[len(self.controls)]


def run(gates: Sequence[Gate], wires: dict[str, int]) -> dict[str, int]:
    """The wires' bits afterwards."""
    out = dict(wires)
    for gate in gates:
        out[gate.target] ^= int(all(out[c] for c in gate.controls))
    return out


def gate_counts(gates: Sequence[Gate]) -> dict[str, int]:
    """Kind of gate -> number."""
    return dict(Counter(gate.kind for gate in gates))


def cuccaro_adder(n: int) -> list[Gate]:
    """b += a on wires a0 … b0 …, the ancilla x (0 before and after), and z, which gains the carry. Raises ValueError for n < 4."""
    if n < 4:
        raise ValueError(f"n = {n}: the circuit is for words of 4 bits or more")
    out: list[Gate] = []

    def toffoli(c: str, d: str, target: str) -> None:
        out.append(Gate((c, d), target))

    def cnot(c: str, target: str) -> None:
        out.append(Gate((c,), target))

    def flip(target: str) -> None:
        out.append(Gate((), target))

    a, b = [f"a{i}" for i in range(n)], [f"b{i}" for i in range(n)]
    for i in range(1, n):
        cnot(a[i], b[i])
    cnot(a[1], "x")
    # Carries ripple up: x holds the first carry, a[i] the others.
    toffoli(a[0], b[0], "x")
    cnot(a[2], a[1])
    toffoli("x", b[1], a[1])
    cnot(a[3], a[2])
    for i in range(2, n - 2):
        toffoli(a[i - 1], b[i], a[i])
        cnot(a[i + 2], a[i + 1])
    toffoli(a[n - 3], b[n - 2], a[n - 2])
    cnot(a[n - 1], "z")
    toffoli(a[n - 2], b[n - 1], "z")
    for i in range(1, n - 1):
        flip(b[i])
    cnot("x", b[1])
    for i in range(2, n):
        cnot(a[i - 1], b[i])
    # Carries are uncomputed on the way down.
    toffoli(a[n - 3], b[n - 2], a[n - 2])
    for i in range(n - 3, 1, -1):
        toffoli(a[i - 1], b[i], a[i])
        cnot(a[i + 2], a[i + 1])
        flip(b[i + 1])
    toffoli("x", b[1], a[1])
    cnot(a[3], a[2])
    flip(b[2])
    toffoli(a[0], b[0], "x")
    cnot(a[2], a[1])
    flip(b[1])
    cnot(a[1], "x")
    for i in range(n):
        cnot(a[i], b[i])
    return out
