"""Derivatives inside programs: their instructions, and several of them in one compute block, which share memory for shadows."""

from __future__ import annotations

import math
from typing import Any

import pytest

import retrograd as rg
from retrograd import fixed


@rg.functional
def chain(x, v, n):
    return v if n == 0 else chain(x, rg.sin(v) + x, n - 1)


@rg.functional
def tree(v, x, n):
    return v * v if n == 0 else tree(v * 0.5, x, n - 1) + tree(v + x, x, n - 1)


@rg.functional
def squares(items):
    match items:
        case []:
            return 0.0
        case [first, *rest]:
            return first * first + squares(rest)


@rg.functional
def halves(v, n):
    return [] if n == 0 else [v, *halves(v * 0.99, n - 1)]


@rg.functional
def chain_value(x: fixed, n: int):
    return chain(x, x, n)


@rg.functional
def chain_slope(x: fixed, n: int):
    return rg.grad(lambda v: chain(v, v, n))(x)


@rg.functional
def tree_value(x: fixed, n: int):
    return tree(x, x, n)


@rg.functional
def tree_slope(x: fixed, n: int):
    return rg.grad(lambda v: tree(v, v, n))(x)


@rg.functional
def list_value(x: fixed, n: int):
    return squares(halves(x, n))


@rg.functional
def list_slope(x: fixed, n: int):
    return rg.grad(lambda v: squares(halves(v, n)))(x)


@pytest.mark.parametrize(
    ("value", "slope", "n"),
    [(chain_value, chain_slope, 100), (tree_value, tree_slope, 6), (list_value, list_slope, 100)],
)
def test_a_gradient_inside_costs_three_values(value: Any, slope: Any, n: int) -> None:
    """A value runs forward and back. A gradient runs forward, back with cotangents, and all of that is undone once."""
    there = rg.run(slope, 0.3, n, engine="reference")
    assert there.steps <= 3.05 * rg.run(value, 0.3, n).steps
    assert there.values.out == pytest.approx(rg.grad(value, "x")(0.3, n), abs=1e-7)
    assert there.erased_bits == 0
    assert not any(there.machine.memory[there.compiled.argument_words :])


@rg.functional
def several(x: fixed) -> tuple[fixed, fixed, fixed, fixed]:
    """Derivatives one after another, one of another's result, one in a branch, and a second derivative behind them."""

    def cube(v):
        return v * v * v

    first = rg.grad(cube)(x)
    second = rg.grad(cube)(first)
    third = rg.grad(rg.sin)(second) if x > 0 else rg.grad(cube)(second)
    return first, second, third, rg.grad(rg.grad(cube))(x) + rg.grad(lambda v: v * first)(x)


@rg.functional
def again(x: fixed, n: int):
    """A derivative, after which a recursion takes the same one."""

    def steps(v, k):
        return v if k == 0 else steps(v - 0.1 * rg.grad(of_a_list)(v), k - 1)

    slope = rg.grad(of_a_list)(x)
    return slope + steps(slope, n)


@rg.functional
def of_a_list(v):
    return squares([v, rg.sin(v)])


@rg.functional
def squared(v):
    return v * v


@rg.functional
def in_a_block(x: fixed):
    with rg.forget():
        a = rg.grad(squared)(x)
    with rg.forget():
        b = rg.grad(lambda v: rg.grad(squared)(v) * a)(x)
    return a + b


def expected_of_again(x: float) -> tuple[float, float]:
    """(value, derivative) of three steps"""

    def slope(v: float) -> tuple[float, float]:
        return 2 * v + math.sin(2 * v), 2 + 2 * math.cos(2 * v)

    begin, d_begin = slope(x)
    v, d = begin, d_begin
    for _ in range(3):
        g, dg = slope(v)
        v, d = v - 0.1 * g, d - 0.1 * dg * d
    return begin + v, d_begin + d


def test_derivatives_share_memory_for_shadows() -> None:
    x = 0.3
    first = 3 * x * x
    second = 3 * first * first
    descended, slope = expected_of_again(x)
    for f, args, expected in (
        (several, (x,), (first, second, math.cos(second), 6 * x + first)),
        (several, (-x,), (first, second, 3 * second * second, -6 * x + first)),
        (again, (x, 3), (descended,)),
        (in_a_block, (x,), (2 * x + 4 * x,)),
    ):
        there = rg.run(f, *args, engine="reference")
        assert list(there.values)[len(args) :] == pytest.approx(expected, abs=1e-6)
        assert there.erased_bits == 0
        assert not any(there.machine.memory[there.compiled.argument_words :])
        assert (~f)(*there.values)[: len(args)] == pytest.approx(args)
    assert rg.grad(several, "x", loss="out_3")(x) == pytest.approx(6 + 6 * x, abs=1e-6)
    assert rg.grad(again, "x")(x, 3) == pytest.approx(slope, abs=1e-6)


@rg.reversible
def cubed(y: fixed, x: fixed):
    y += x * x * x


slope = rg.reversible_gradient(cubed, "x", "y")


@rg.reversible
def twice(y: fixed, x: fixed):
    """The slope, and the slope where it is, of a reversible function."""
    with rg.routine() as r:
        loss, g, h = 0.0, 0.0, 0.0
        slope(loss, x, g)
        slope(loss, g, h)
    y += g + h
    ~r


def test_in_reversible_functions() -> None:
    assert rg.run(twice, 0.0, 0.5).values.y == pytest.approx(0.75 + 3 * 0.75**2, abs=1e-7)
    assert rg.grad(twice, "x")(0.0, 0.5) == pytest.approx(3 + 6 * 0.75 * 3, abs=1e-6)
