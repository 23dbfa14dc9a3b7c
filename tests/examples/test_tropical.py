"""Tropical numbers against all states of short chains of spins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.examples.tropical import (
    Tropical,
    best_state,
    chain,
    highest_energy,
    highest_energy_of_all,
    times_dot,
)

import retrograd as rg
from retrograd.testing import check_inverse

NUMBERS = st.integers(-40, 40).map(lambda k: k / 8 + 1 / 64)


@pytest.mark.long
@given(st.integers(1, 7), st.data())
def test_the_best_of_all_states(n: int, data: st.DataObject) -> None:
    fields = data.draw(st.lists(NUMBERS, min_size=n, max_size=n))
    couplings = data.draw(st.lists(NUMBERS, min_size=n - 1, max_size=n - 1))
    value, spins = best_state(fields, couplings)
    wanted, _ = highest_energy_of_all(fields, couplings)
    assert value == wanted
    # Several states may have the highest energy.
    bonds = zip(couplings, spins, spins[1:], strict=False)
    assert sum(h * x for h, x in zip(fields, spins, strict=True)) + sum(j * x * y for j, x, y in bonds) == wanted
    check_inverse(highest_energy, Tropical(0.0), *chain(fields, couplings))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5), NUMBERS)
def test_a_dot_product_is_a_factor(pairs: list[tuple[float, float]], start: float) -> None:
    x, y = ([Tropical(pair[k]) for pair in pairs] for k in (0, 1))
    found = times_dot(Tropical(start), x, y)
    assert found.z.exponent == start + max(a + b for a, b in pairs)
    assert (~times_dot)(*found).z == Tropical(start)


def test_products_are_exact() -> None:
    @rg.reversible
    def power(z: Tropical, x: Tropical, n: int):
        for _ in range(n):
            z.times(x)

    assert power(Tropical(1.0), Tropical(0.1), 10).z.exponent == pytest.approx(2.0)
    assert (~power)(*power(Tropical(1.0), Tropical(0.1), 10)).z == Tropical(1.0)
    assert np.isfinite(power(Tropical(0.0), Tropical(-3.0), 3).z.exponent)
