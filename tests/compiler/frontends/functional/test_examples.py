"""The examples give the numbers of the papers."""

from __future__ import annotations

from typing import Any

import pytest
from retrograd.examples.functional import interpreter, network, saddle

import retrograd as rg

#: of the program `saddle` of the paper, in float64
SADDLE = 4.965316230354233e-05


def undone(f: Any, *args: Any, format: str | None = None) -> Any:
    """The results of f. Its run erases nothing, and its inverse leaves zeros."""
    there = rg.run(f, *args, format=format)
    back = rg.run(~f, *there.values, format=format)
    assert there.erased_bits == back.erased_bits == 0
    assert not any(back.values[len(args) :])
    results = there.values[len(args) :]
    return results[0] if len(results) == 1 else results


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::retrograd.PrecisionWarning")  # the step of the search is 1e-9
@pytest.mark.parametrize(("format", "error"), [pytest.param("Q32.32", 1e-6, marks=pytest.mark.long), ("Q24.40", 1e-9)])
def test_saddle(format: str, error: float) -> None:
    """Both searches end where those of the paper end, and nothing is erased. Q32.32 rounds the golden ratio by 1e-10, and lines are 400 long."""
    assert undone(saddle.saddle, 1.0, 1.0, format=format) == pytest.approx((SADDLE,) * 4, abs=error)


@rg.functional(stack=1 << 16, heap=1 << 17)
def inner_forward(x: rg.fixed, y: rg.fixed) -> tuple[rg.fixed, rg.fixed, rg.fixed, rg.fixed]:
    return saddle.saddle_point(rg.grad, saddle.forward, (x, y))


@rg.functional(stack=1 << 16, heap=1 << 17)
def outer_forward(x: rg.fixed, y: rg.fixed) -> tuple[rg.fixed, rg.fixed, rg.fixed, rg.fixed]:
    return saddle.saddle_point(saddle.forward, rg.grad, (x, y))


@rg.functional(stack=1 << 16, heap=1 << 17)
def both_forward(x: rg.fixed, y: rg.fixed) -> tuple[rg.fixed, rg.fixed, rg.fixed, rg.fixed]:
    return saddle.saddle_point(saddle.forward, saddle.forward, (x, y))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::retrograd.PrecisionWarning")
@pytest.mark.parametrize("f", [inner_forward, outer_forward, both_forward])
def test_saddle_in_other_modes(f: Any) -> None:
    assert undone(f, 1.0, 1.0, format="Q24.40") == pytest.approx((SADDLE,) * 4, abs=1e-9)


@rg.functional
def particles(x: rg.fixed, steps: int):
    """Σ x·y of four bodies in a field of force with friction, by Euler's method with steps of 0.05."""

    def moved(p, v, k):
        if k == 0:
            return p[0] * p[1]
        ax, ay = -0.5 * p[0] - 0.2 * v[0], -0.5 * p[1] - 0.2 * v[1]
        return moved((p[0] + 0.05 * v[0], p[1] + 0.05 * v[1]), (v[0] + 0.05 * ax, v[1] + 0.05 * ay), k - 1)

    def total(bodies):
        match bodies:
            case []:
                return 0.0
            case [first, *rest]:
                return moved((first, 0.1), (1.0, 1.0), steps) + total(rest)

    return total([x, 2 * x, 3 * x, 4 * x])


def test_four_bodies() -> None:
    """Source: the benchmark `particles` of Smeding and Vákár, POPL 2023, with 100 steps in place of 1000. Euler's steps are linear in x."""
    assert undone(particles, 0.5, 100) == pytest.approx(1.80630564027, abs=1e-6)
    slope = (particles(1.5, 100) - particles(-0.5, 100)) / 2
    assert rg.grad(particles, "x")(0.5, 100) == pytest.approx(slope, abs=1e-6)


@pytest.mark.long
@pytest.mark.parametrize(("steps", "error"), [(1, 0.5105678882573), (10, 0.4967496867414), (100, 0.4911168310722)])
def test_exclusive_or(steps: int, error: float) -> None:
    assert undone(network.exclusive_or, 0.3, steps) == pytest.approx(error, abs=1e-9)


@pytest.mark.long
def test_a_classifier() -> None:
    """50 inputs, 100 neurons, 50 outputs: the sum of a softmax is constant."""
    largest, squares = undone(network.layers_of_a_classifier, 0.3, 50, 100)
    assert largest < 1e-6
    assert squares < 1e-6


@pytest.mark.long
def test_maximum_likelihood() -> None:
    assert undone(interpreter.likeliest, 0.5, 0.5, 0.1, 1000) == pytest.approx((0.25, 1 / 3), abs=1e-6)
