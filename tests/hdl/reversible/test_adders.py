"""Adders as published: sums, and the counts of their papers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from retrograd.hdl.reversible.adders import cuccaro_adder, maj_uma_adder, takahashi_adder, vbe_adder
from retrograd.hdl.reversible.circuit import Circuit, Gate
from retrograd.hdl.reversible.counts import count

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


def test_small_adders_are_refused() -> None:
    with pytest.raises(ValueError, match="4 bits"):
        cuccaro_adder(3)
