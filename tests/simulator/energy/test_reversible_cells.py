"""The junctions of reversible gates in aqfp.toml: the fewest RQFP gates that make each, found by search.

    (a, b, c) → (MAJ(¬a, b, c), MAJ(a, ¬b, c), MAJ(a, b, ¬c))

An RQFP gate has three splitters of 2 junctions and three majority gates of 6, in two levels; inverters are free. Lines that begin as 0
must end as 0: nothing is left as garbage. (N. Takeuchi, Y. Yamanashi, N. Yoshikawa, Sci. Rep. 4, 6354, 2014.)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from retrograd.hdl.reversible.circuit import transposed
from retrograd.simulator.energy.technology import technology

Columns = tuple[int, ...]


def majority(a: int, b: int, c: int) -> int:
    return a & b | a & c | b & c


def fewest(inputs: int, zeros: int, wanted: Callable[..., list[int]], most: int) -> int | None:
    """RQFP gates from input bits and zeros to the wanted bits and zeros; bits as columns of a truth table. Lines have no order, inverters cost nothing."""
    ones = (1 << (1 << inputs)) - 1

    def state(columns: list[int]) -> Columns:
        return tuple(sorted(min(column, column ^ ones) for column in columns))

    start = transposed(range(1 << inputs), inputs)
    goal = state([*wanted(*start), *[0] * zeros])
    seen = {state([*start, *[0] * zeros])}
    frontier = set(seen)
    for count in range(most + 1):
        if goal in seen:
            return count
        found = set()
        for columns in frontier:
            for places in itertools.combinations(range(len(columns)), 3):
                for flips in ((0, 0), (0, ones), (ones, 0), (ones, ones)):
                    a, b, c = columns[places[0]] ^ flips[0], columns[places[1]] ^ flips[1], columns[places[2]]
                    after = list(columns)
                    after[places[0]] = majority(a ^ ones, b, c)
                    after[places[1]] = majority(a, b ^ ones, c)
                    after[places[2]] = majority(a, b, c ^ ones)
                    found.add(state(after))
        frontier = found - seen
        seen |= found
    return None


def cnot(a: int, b: int) -> list[int]:
    return [a, a ^ b]


def toffoli(a: int, b: int, c: int) -> list[int]:
    return [a, b, c ^ a & b]


def fredkin(a: int, b: int, c: int) -> list[int]:
    change = a & (b ^ c)
    return [a, b ^ change, c ^ change]


def peres(a: int, b: int, c: int) -> list[int]:
    return [a, a ^ b, c ^ a & b]


@pytest.mark.parametrize(("kind", "wanted", "inputs", "zeros", "count"), [
    ("CNOT", cnot, 2, 1, 2), ("Toffoli", toffoli, 3, 1, 5), ("Fredkin", fredkin, 3, 1, 3), ("Peres", peres, 3, 2, 4),
])  # fmt: skip
def test_the_fewest_gates(kind: str, wanted: Callable[..., list[int]], inputs: int, zeros: int, count: int) -> None:
    """The junctions of the model: 24 for each gate, and a buffer in both of its levels for each line beside it."""
    assert fewest(inputs, zeros, wanted, count) == count
    (charge,) = (charge for charge in technology("aqfp").charges if charge.law.name == "gate")
    assert charge.cells is not None
    beside = inputs + zeros - 3
    assert charge.cells[kind].si.nominal == count * (3 * 2 + 3 * 6 + beside * 2 * 2)
    assert charge.levels[kind].si.nominal == 2 * count


def test_without_a_line_of_zero_there_is_none() -> None:
    """Majority gates and inverters commute with the inversion of all lines, which AND does not."""
    assert fewest(3, 0, toffoli, 6) is None
