"""Adders as published: sums, and the counts of their papers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from retrograd.hdl.reversible.builder import cuccaro_adder, gidney_adder, maj_uma_adder, takahashi_adder, vbe_adder
from retrograd.hdl.reversible.circuit import Circuit, Gate, count, permutation, simulate, transposed

ADDERS = (takahashi_adder, maj_uma_adder, cuccaro_adder, vbe_adder)


@pytest.mark.parametrize("adder", ADDERS)
@pytest.mark.parametrize("n", [4, 5])
def test_sums(adder: Callable[[int], Circuit], n: int) -> None:
    circuit = adder(n)
    for a in range(1 << n):
        for b in range(1 << n):
            assert circuit.run({"a": a, "b": b}) == {"a": a, "b": a + b}


@pytest.mark.parametrize("n", [4, 8, 32])
def test_published_counts(n: int) -> None:
    """Cuccaro et al. 2004, Takahashi et al. 2010, Vedral et al. 1996."""
    small, chain, takahashi, vbe = (count(f(n)) for f in (cuccaro_adder, maj_uma_adder, takahashi_adder, vbe_adder))
    assert (small.toffoli, small.cnot, small.x, small.width, small.depth) == (
        2 * n - 1,
        5 * n - 3,
        2 * n - 4,
        2 * n + 2,
        2 * n + 4,
    )
    assert (chain.toffoli, chain.cnot, chain.x) == (2 * n, 4 * n + 1, 0)
    assert (vbe.toffoli, vbe.cnot, vbe.width) == (4 * n - 2, 4 * n, 3 * n + 1)
    # One line more than the two words: the carry out. There is no other ancilla.
    assert (takahashi.toffoli, takahashi.cnot, takahashi.width) == (2 * n - 1, 5 * n - 5, 2 * n + 1)


def test_the_adder_of_32_bits() -> None:
    found = count(cuccaro_adder(32))
    assert (found.toffoli, found.cnot, found.x, found.width, found.depth) == (63, 157, 60, 66, 68)


def test_full_adder_of_two_peres_gates() -> None:
    """A Peres gate is a Toffoli and a CNOT gate, so two Peres gates add three bits."""
    gates = tuple(
        gate
        for x, y, z in ((0, 1, 3), (1, 2, 3))
        for gate in (Gate((x, y), (z,)), Gate((x,), (y,)))
    )  # fmt: skip
    circuit = Circuit(4, gates, {"x": (0,), "y": (1,), "c": (2,)}, {"sum": (2, 3)}, (0, 1))
    for x in (0, 1):
        for y in (0, 1):
            for c in (0, 1):
                assert circuit.run({"x": x, "y": y, "c": c}) == {"sum": x + y + c}
    found = count(circuit)
    assert found.peres == 2
    assert found.quantum_cost - 2 * found.peres == 8


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_sums_with_temporary_ands(n: int) -> None:
    circuit = gidney_adder(n)
    rows = [(a, b) for a in range(1 << n) for b in range(1 << n)]
    for a, b in rows:
        assert circuit.run({"a": a, "b": b}) == {"a": a, "b": (a + b) % (1 << n)}
    # The ancillas are 0 again, for all words at once.
    state = transposed([a | b << n for a, b in rows], circuit.lines)
    simulate(circuit.gates, state, (1 << len(rows)) - 1)
    assert not any(state[line] for line in circuit.zeros)
    found = count(circuit)
    assert (found.toffoli, found.cnot, found.width, found.t_measured) == (2 * n - 2, 6 * n - 9, 3 * n - 1, 4 * n - 4)


def test_an_and_that_is_not_undone_at_once() -> None:
    """Of a Toffoli gate onto a line that is not 0, and of the gate after it, each takes 7 T gates."""
    first, second = Gate((0, 1), (3,)), Gate((1, 2), (3,))
    given = {"x": (0, 1, 2)}
    assert count(Circuit(4, (first, first), given, given)).t_measured == 4
    assert count(Circuit(4, (first, second, second, first), given, given)).t_measured == 4 + 7 + 7
    # Onto an input nothing is known; the line is an output here.
    assert count(Circuit(3, (Gate((0, 1), (2,)),) * 2, given, given)).t_measured == 14


def test_toffoli_of_seven_t_and_six_cnot() -> None:
    """The price of a Toffoli gate is that of its circuit of 7 T gates and 6 CNOT gates. (Nielsen and Chuang, figure 4.9.)"""
    h = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    t = np.diag([1, np.exp(0.25j * np.pi)])

    def on(gate: np.ndarray, line: int) -> np.ndarray:
        return np.kron(np.kron(np.eye(1 << (2 - line)), gate), np.eye(1 << line))

    def cnot(control: int, target: int) -> np.ndarray:
        return np.eye(8)[[x ^ ((x >> control & 1) << target) for x in range(8)]]

    a, b, c = 0, 1, 2
    inverse = t.conj()
    cnots = [cnot(b, c), cnot(a, c), cnot(b, c), cnot(a, c), cnot(a, b), cnot(a, b)]
    turns = [on(inverse, c), on(t, c), on(inverse, c), on(t, b), on(t, c), on(t, a), on(inverse, b)]
    steps = [
        on(h, c), cnots[0], turns[0], cnots[1], turns[1], cnots[2], turns[2], cnots[3], turns[3], turns[4], on(h, c),
        cnots[4], turns[5], turns[6], cnots[5],
    ]  # fmt: skip
    total = np.eye(8)
    for step in steps:
        total = step @ total
    expected = np.eye(8)[permutation(Circuit(3, (Gate((a, b), (c,)),)))]
    assert np.allclose(total, expected)
    found = count(Circuit(3, (Gate((a, b), (c,)),)))
    assert (found.t, len(cnots)) == (len(turns), 6)


def test_small_adders_are_refused() -> None:
    with pytest.raises(ValueError, match="4 bits"):
        cuccaro_adder(3)
