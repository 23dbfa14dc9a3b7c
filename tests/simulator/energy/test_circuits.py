"""The reversible adder: it adds, takes itself back, and has as many gates as its authors say."""

from __future__ import annotations

import random

import pytest
from retrograd.simulator.energy.circuits import cuccaro_adder, gate_counts, run


def wires(n: int, a: int, b: int, z: int = 0) -> dict[str, int]:
    out = {f"a{i}": a >> i & 1 for i in range(n)} | {f"b{i}": b >> i & 1 for i in range(n)}
    return out | {"x": 0, "z": z}


def test_32_bits() -> None:
    assert gate_counts(cuccaro_adder(32)) == {"Toffoli": 63, "CNOT": 157, "NOT": 60}


@pytest.mark.parametrize("n", [4, 5, 8, 64])
def test_counts(n: int) -> None:
    assert gate_counts(cuccaro_adder(n)) == {"Toffoli": 2 * n - 1, "CNOT": 5 * n - 3, "NOT": 2 * n - 4}


def test_it_adds_all_words_of_4_bits() -> None:
    gates = cuccaro_adder(4)
    for a in range(16):
        for b in range(16):
            assert run(gates, wires(4, a, b)) == wires(4, a, (a + b) % 16, (a + b) >> 4)


@pytest.mark.parametrize("n", [5, 6, 32])
def test_it_adds_and_takes_itself_back(n: int) -> None:
    rng, gates = random.Random(n), cuccaro_adder(n)
    for _ in range(200):
        a, b, z = rng.getrandbits(n), rng.getrandbits(n), rng.getrandbits(1)
        before = wires(n, a, b, z)
        after = run(gates, before)
        assert after == wires(n, a, (a + b) % (1 << n), z ^ (a + b) >> n)
        assert run(gates[::-1], after) == before


def test_too_short_words() -> None:
    with pytest.raises(ValueError, match="4 bits"):
        cuccaro_adder(3)
