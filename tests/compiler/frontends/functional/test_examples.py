"""The examples give the numbers of the papers."""

from __future__ import annotations

import pytest
from retrograd.examples.functional import interpreter, network, saddle

import retrograd as rg


def test_saddle() -> None:
    """Both searches end near the saddle point, which is the origin, and nothing is erased."""
    there = rg.run(saddle.saddle, 1.0, 1.0)
    assert max(map(abs, there.values[2:])) < 1e-4
    assert there.erased_bits == 0


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "error"), [(1, 0.5105678882573), (10, 0.4967496867414), (100, 0.4911168310722)])
def test_exclusive_or(steps: int, error: float) -> None:
    assert network.exclusive_or(0.3, steps) == pytest.approx(error, abs=1e-9)


@pytest.mark.slow
def test_a_classifier() -> None:
    """50 inputs, 100 neurons, 50 outputs: the sum of a softmax is constant."""
    largest, squares = network.layers_of_a_classifier(0.3, 50, 100)
    assert largest < 1e-6
    assert squares < 1e-6


@pytest.mark.slow
def test_maximum_likelihood() -> None:
    assert interpreter.likeliest(0.5, 0.5, 0.1, 1000) == pytest.approx((0.25, 1 / 3), abs=1e-6)
