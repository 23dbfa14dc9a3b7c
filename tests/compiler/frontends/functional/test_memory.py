"""The memory of a functional function: as large as it has to be without options, and a way out where it is full."""

from __future__ import annotations

import re
from typing import Any

import pytest

import retrograd as rg
from retrograd import CompileError, fixed
from retrograd.runtime._batch_arguments import Batch
from retrograd.runtime._reversible import request_of


@rg.functional
def halved(x: fixed, n: int):
    """x · (1 + … + 2⁻ⁿ⁺¹ + 2⁻ⁿ), by a loop"""
    v = x
    for _ in range(n):
        v = 0.5 * v + x
    return v


@rg.functional
def summed(x: fixed, n: int):
    """The same sum, by recursion"""

    def terms(v, k):
        return v if k == 0 else v + terms(0.5 * v, k - 1)

    return terms(x, n)


def test_a_long_loop_needs_no_option() -> None:
    assert halved(0.25, 100_000) == pytest.approx(0.5, abs=1e-6)
    assert rg.grad(halved, "x")(0.25, 100_000) == pytest.approx(2.0, abs=1e-6)


def test_a_deep_recursion_needs_no_option() -> None:
    assert summed(0.25, 100_000) == pytest.approx(0.5, abs=1e-4)
    assert rg.grad(summed, "x")(0.25, 100_000) == pytest.approx(2.0, abs=1e-4)


@pytest.mark.parametrize("function", [halved, summed], ids=lambda f: f.__name__)
@pytest.mark.parametrize("w", [rg.Format(8, 4), rg.Format(16, 8), rg.Format(32, 16)], ids=str)
def test_a_format_addresses_its_memory(function: rg.Functional, w: rg.Format) -> None:
    assert rg.run(function, 0.5, 2, format=w).values.out == 0.875
    assert rg.grad(function, "x", format=w)(0.5, 2) == 1.75


def test_a_full_heap_has_a_way_out() -> None:
    full = halved.with_options(heap=1000)
    with pytest.raises(rg.ProgramTrap) as caught:
        full(0.25, 2000)
    assert caught.value.code == "RG0811"
    assert '`parts="loop"`' in str(caught.value)
    assert full.with_options(parts="loop")(0.25, 2000) == halved(0.25, 2000)


def test_a_row_on_a_gpu_has_a_small_heap() -> None:
    """Each of its words costs time and room there; a heap that is named stays as it is."""
    large, small, named = (
        Batch(request_of(f, engine=engine), ([0.25, 0.5], 3), {}, {"n": None}).compiled().program.memory
        for f, engine in ((summed, "native"), (summed, "cuda"), (summed.with_options(heap=1 << 18), "cuda"))
    )
    assert 1 << 17 <= small < 1 << 18 < named < 1 << 19 < 1 << 21 <= large


def test_a_run_that_costs_all_words_of_memory_has_few() -> None:
    """As on a simulated co-processor; a heap and a stack that are named stay as they are."""
    for f, few in ((halved, True), (halved.with_options(heap=1 << 18, stack=1 << 17), False)):
        request = request_of(f)
        values = request.values((0.25, 3), {})
        found = request.for_whole_memory(request.compiled(values))
        assert (found is request) == (not few)
        assert found.compiled(values).program.memory < (1 << 18 if few else 1 << 20)


@rg.functional
def listed(x: fixed, n: int):
    """x² + x⁴/4 + x⁶/16 …, over a list"""

    def powers(v, k):
        return [] if k == 0 else [v, *powers(0.5 * v * x, k - 1)]

    def squares(items):
        match items:
            case []:
                return 0.0
            case [first, *rest]:
                return first * first + squares(rest)

    return squares(powers(x, n))


@rg.functional
def slope(x: fixed, n: int):
    """Σ ∂(t·x·2⁻ᵏ)/∂t"""

    def terms(t, k):
        return 0.0 if k == 0 else t * x + terms(0.5 * t, k - 1)

    return rg.grad(lambda t: terms(t, n))(x)


def derivative(f: Any, order: int, w: Any) -> float:
    """∂ⁿf/∂xⁿ at 0.5, in a format."""
    if order == 0:
        return float(rg.run(f, 0.5, 2, format=w).values.out)
    g = rg.grad(f, "x", format=w)
    for _ in range(order - 1):
        g = rg.grad(g, "x")
    return float(g(0.5, 2))


def outcome(f: Any, order: int, w: Any) -> tuple[float | None, CompileError | None]:
    """The derivative, or its refusal."""
    try:
        return derivative(f, order, w), None
    except CompileError as error:
        return None, error


@pytest.mark.parametrize("function", [halved, summed, listed, slope], ids=lambda f: f.__name__)
@pytest.mark.parametrize("w", [rg.Format(4, 2), rg.Format(8, 4), rg.Format(8, 5), rg.Format(16, 8)], ids=str)
def test_a_narrow_format_computes_a_derivative_or_names_one_that_does(function: rg.Functional, w: rg.Format) -> None:
    for order in range(4):
        exact = derivative(function, order, "Q24.40")
        found, refused = outcome(function, order, w)
        if refused is not None:
            assert refused.code == "RG0734"
            wider = re.search(r'--> .*test_memory\.py:\d+[\s\S]*format="(Q\d+\.\d+)"', str(refused))
            assert wider is not None
            found = derivative(function, order, wider[1])
        assert found == pytest.approx(exact, abs=6 * 2.0**-w.frac)


def test_a_second_gradient_has_room_in_a_format_of_16_bits() -> None:
    """Its cotangents were given 2¹⁶ words, whose end has no address in 16 bits."""
    assert [derivative(listed, order, "Q8.8") for order in (1, 2)] == pytest.approx([1.125, 2.75], abs=0.05)


def test_a_cell_that_is_larger_than_the_heap() -> None:
    @rg.functional(heap=8)
    def product(x: fixed):
        def total(items):
            match items:
                case []:
                    return 0.0
                case [(a, b, c, d, e, f, g, h, i, j, k, m), *rest]:
                    return a * b + c * d + e * f + g * h + i * j + k * m + total(rest)

        return total([(x, x, x, x, x, x, x, x, x, x, x, x)])

    with pytest.raises(rg.ProgramTrap) as caught:
        product(0.5)
    assert caught.value.code == "RG0811"
    assert product.with_options(heap=64)(0.5) == 1.5
