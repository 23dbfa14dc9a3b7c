"""`scale="auto"`, the default, is the first scale of a list that works, for every derivative; found here by trying all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.examples import bessel
from retrograd.isa.words import WIDTHS, Format

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.cli.main import main
from retrograd.derivatives._arguments import automatic

FORMAT = "32,16"
SCALES = (8, 4, 0, -4)


@reversible
def product(y: fixed, a: fixed, x: Array[fixed, "n"]):
    for i in range(len(x)):
        y += a * x[i] * x[i]


@reversible
def squares(y: Array[fixed, 2], x: Array[fixed, 2]):
    y[0] += 100 * x[0] * x[0]
    y[1] += x[1] * x[1]


@reversible
def with_a_loop(y: fixed, a: fixed, x: Array[fixed, "n"]):
    """y += a·Σx², with a forward sweep in its gradient program: the sum is used again."""
    with rg.routine() as summed:
        s = fixed(0)
        for i in range(len(x)):
            s += x[i] * x[i]
    y += a * s
    ~summed


@reversible
def with_a_lognum(y: fixed, x: lognum):
    y += 3 * fixed(x)


def of_grad(scale: Any) -> Any:
    return rg.grad(product, scale=scale, format=FORMAT)(0.0, 2.0, [3.0, 40.0])


def of_value_and_grad(scale: Any) -> Any:
    return rg.value_and_grad(product, "x", scale=scale, format=FORMAT)(0.0, 2.0, [3.0, 40.0])


def of_a_batch(scale: Any) -> Any:
    each = rg.vmap(rg.grad(product, scale=scale, format=FORMAT), in_axes=(None, None, 0))
    return each(0.0, 2.0, np.array([[3.0, 40.0], [0.1, 500.0], [1.0, 1.0]]) / 4)


def of_a_shared_sum(scale: Any) -> Any:
    each = rg.vmap(rg.value_and_grad(product, "a", scale=scale, format=FORMAT), in_axes=(None, None, 0), shared="sum")
    return each(0.0, 2.0, np.array([[3.0, 40.0], [0.1, 50.0]]) / 4)


def of_vjp(scale: Any) -> Any:
    return rg.vjp(squares, [0.0, 0.0], [3.0, 5.0], scale=scale, format=FORMAT)[1]({"y": [0.5, 2.0]})


def of_jvp(scale: Any) -> Any:
    return rg.jvp(squares, ([0.0, 0.0], [3.0, 5.0]), {"x": [0.5, 2.0]}, scale=scale, format=FORMAT)[1]


def of_jacobian(scale: Any) -> Any:
    return rg.jacobian(squares, "x", scale=scale, format=FORMAT)([0.0, 0.0], [3.0, 5.0])


def of_a_sparse_jacobian(scale: Any) -> Any:
    return rg.jacobian(squares, "x", pattern=np.eye(2), scale=scale, format=FORMAT)([0.0, 0.0], [3.0, 5.0]).data


def of_hvp(scale: Any) -> Any:
    return rg.hvp(product, "x", scale=scale, format=FORMAT)((0.0, 2.0, [3.0, 40.0]), [1.0, 2.0])


def of_hessian(scale: Any) -> Any:
    return rg.hessian(product, "x", scale=scale, format=FORMAT)(0.0, 2.0, [3.0, 40.0])


def of_a_report(scale: Any) -> Any:
    report = rg.gradient_report(product, scale=scale, format=FORMAT)(0.0, 2.0, [3.0, 40.0])
    return report.gradients, report.scale, report.backward_steps


def of_a_lognum(scale: Any) -> Any:
    return rg.grad(with_a_lognum, scale=scale, format=FORMAT)(0.0, 200.0)


DERIVATIVES = [of_grad, of_value_and_grad, of_a_batch, of_a_shared_sum, of_vjp, of_jvp, of_jacobian, of_a_sparse_jacobian,
               of_hvp, of_hessian, of_a_report, of_a_lognum]  # fmt: skip


@pytest.mark.parametrize("w", [Format(width, frac) for width in WIDTHS for frac in range(0, width, 5)], ids=str)
def test_the_list_of_a_format(w: Format) -> None:
    found = automatic(w)
    assert list(found) == sorted(set(found), reverse=True)
    assert all(-w.frac <= k <= w.width - w.frac - 2 for k in found)
    assert min(found) >= -(w.frac / 4) or w.width - w.frac == 1
    assert 0 in found or w.width - w.frac == 1, "what has a gradient at scale 0 has one"
    assert automatic(Format(64, 32)) == (16, 8, 0, -8)
    assert automatic(Format(32, 16)) == SCALES


def works(derivative: Callable[[Any], Any], scale: int) -> bool:
    try:
        derivative(scale)
    except (rg.ProgramTrap, rg.InputError) as error:
        if error.code not in ("RG0404", "RG0601"):
            raise
        return False
    return True


def flat(result: Any) -> list[float]:
    if isinstance(result, tuple | list | np.ndarray):
        return [x for part in result for x in flat(part)]
    return [float(result)]


@pytest.mark.parametrize("derivative", DERIVATIVES, ids=lambda f: f.__name__)
def test_the_default_is_the_first_scale_that_works(derivative: Callable[[Any], Any]) -> None:
    working = [k for k in SCALES if works(derivative, k)]
    assert 0 < len(working) < len(SCALES), "all scales work, or none: the case shows nothing"
    assert flat(derivative("auto")) == flat(derivative(working[0]))


def alone(f: rg.Reversible, which: Any, *args: Any) -> tuple[Any, int]:
    """(the gradient of one call, its scale), each by trying the scales."""
    for k in SCALES:
        try:
            return rg.grad(f, which, scale=k, format=FORMAT)(*args), k
        except rg.ProgramTrap as trap:
            if trap.code != "RG0404":
                raise
    raise AssertionError("no scale works")


#: rows whose gradients need each of the scales, and their neighbours
MAGNITUDES = st.lists(st.tuples(*[st.floats(-7, 7.2)] * 2), min_size=2, max_size=40)
ENGINES = ["reference", "threaded", "native", "translated", "auto"]


@pytest.mark.parametrize("f", [product, with_a_loop], ids=lambda f: f.__name__)
@settings(max_examples=12, deadline=None)
@given(MAGNITUDES, st.sampled_from(ENGINES), st.integers(1, 40))
def test_an_element_of_a_batch_has_the_scale_that_it_has_alone(
    f: rg.Reversible, powers: list[tuple[float, float]], engine: str, cut: int
) -> None:
    x = np.round(np.exp2(powers) * 2**16) / 2**16
    x[0], x[-1] = (0.25, 0.5), (150.0, 2.0)
    one_by_one = [alone(f, "x", 0.0, 0.5, row) for row in x]
    assert len({k for _, k in one_by_one}) > 1, "one scale: the case shows nothing"
    each = rg.vmap(rg.grad(f, "x", format=FORMAT), (None, None, 0), engine=engine)
    expected = np.array([g for g, _ in one_by_one])
    assert np.array_equal(each(0.0, 0.5, x), expected)
    parts = [part for part in np.split(x, [min(cut, len(x))]) if len(part)]
    assert np.array_equal(np.concatenate([each(0.0, 0.5, part) for part in parts]), expected)
    for row, g in zip(x[:2], expected, strict=False):
        assert np.array_equal(rg.grad(f, "x", engine=engine, format=FORMAT)(0.0, 0.5, row), g)
        assert np.array_equal(rg.gradient_report(f, "x", format=FORMAT)(0.0, 0.5, row).gradients, g)


@pytest.mark.parametrize("f", [product, with_a_loop], ids=lambda f: f.__name__)
@settings(max_examples=12, deadline=None)
@given(MAGNITUDES, st.sampled_from(ENGINES), st.integers(1, 40))
def test_a_shared_sum_of_several_scales_is_exact(
    f: rg.Reversible, powers: list[tuple[float, float]], engine: str, chunk: int
) -> None:
    x = np.round(np.exp2(powers) * 2**16) / 2**16
    x[0], x[-1] = (0.25, 0.5), (150.0, 2.0)
    one_by_one = [alone(f, "a", 0.0, 0.5, row) for row in x]
    assert len({k for _, k in one_by_one}) > 1, "one scale: the case shows nothing"
    # The gradients are words of 32 bits, so their floats are exact.
    expected = sum(Fraction(g) for g, _ in one_by_one)
    value = sum(Fraction(f.with_options(format=FORMAT)(0.0, 0.5, row).y) for row in x)
    for settings_of in ({}, {"chunk": chunk}):
        each = rg.vmap(
            rg.value_and_grad(f, "a", format=FORMAT), (None, None, 0), shared="sum", engine=engine, **settings_of
        )
        assert each(0.0, 0.5, x) == (float(value), float(expected))


def test_gradients_by_lognums_have_scales_of_their_own() -> None:
    @reversible
    def f(y: fixed, a: fixed, x: Array[lognum, 2]):
        y += a * fixed(x[0]) * fixed(x[1])

    x = np.array([[0.5, 1.0], [150.0, 2.0], [-3.0, 0.25], [3.0, 40.0]])
    one_by_one = [alone(f, "x", 0.0, 0.5, row) for row in x]
    assert len({k for _, k in one_by_one}) > 1, "one scale: the case shows nothing"
    found = rg.vmap(rg.grad(f, "x", format=FORMAT), (None, None, 0))(0.0, 0.5, x)
    assert np.array_equal(found, [g for g, _ in one_by_one])


def test_elements_that_trap_at_every_scale() -> None:
    each = rg.vmap(rg.grad(product, "x", format=FORMAT), (None, None, 0))
    x = np.array([[1.0, 2.0], [150.0, 1.0], [300.0, 1.0], [1.0, 2.0]])
    with pytest.raises(rg.ElementTrap) as raised:
        each(0.0, 0.5, x)
    assert raised.value.element == 2
    with pytest.raises(rg.ProgramTrap) as single:
        rg.grad(product, "x", format=FORMAT)(0.0, 0.5, x[2])
    assert str(raised.value).replace("element 2: ", "") == str(single.value)


def test_bessel_without_an_option() -> None:
    for found in (
        rg.grad(bessel.bessel, "z")(0.0, 1.0),
        rg.value_and_grad(bessel.bessel, "z")(0.0, 1.0)[1],
        rg.vmap(rg.grad(bessel.bessel, "z"), (None, 0))(0.0, np.array([1.0]))[0],
        rg.vjp(bessel.bessel, 0.0, 1.0)[1]({"out": 1.0}).z,
        rg.jvp(bessel.bessel, (0.0, 1.0), {"z": 1.0})[1].out,
        rg.jacobian(bessel.bessel, "z", "out")(0.0, 1.0),
        rg.gradient_report(bessel.bessel, "z")(0.0, 1.0).gradients,
    ):
        assert math.isclose(float(found), 0.2102436158518, rel_tol=0, abs_tol=1e-8)


def test_a_cotangent_that_never_decays_is_small() -> None:
    @rg.functional
    def limit(x: fixed, n: int) -> fixed:
        def go(v, k):
            return v if k == 0 else go(v * 0.5 + x, k - 1)

        return go(0.0, n)

    n = 1000
    # Each pass adds a last place of cotangents, 2^-48; at scale 0 it is 2^-32.
    assert 0 < rg.grad(limit, "x")(1.0, n) - 2 < n * 2.0**-48
    assert rg.grad(limit, "x", scale=0)(1.0, n) - 2 > n * 2.0**-33


def test_scales_below_0_divide() -> None:
    @reversible
    def steep(y: fixed, x: fixed):
        y += x * 3.0e4 * 3.0e4 * 8.0

    exact = 7.2e9
    assert exact > 2.0**31
    assert rg.grad(steep, "x")(0.0, 0.0) == exact
    assert rg.grad(steep, "x", scale=-3)(0.0, 0.0) == exact
    with pytest.raises(rg.ProgramTrap) as raised:
        rg.grad(steep, "x", scale=0)(0.0, 0.0)
    assert raised.value.code == "RG0404"


def test_a_cotangent_that_fits_no_word_is_named_as_it_is_given() -> None:
    def pulled(given: float) -> Any:
        return rg.vjp(squares, [0.0, 0.0], [3.0, 5.0], format=FORMAT)[1]({"y": [0.0, given]}).x

    assert pulled(40000.0).tolist() == [0.0, 400000.0]
    with pytest.raises(rg.InputError, match=r"4000000\.0 does not fit"):
        pulled(4000000.0)


def test_small_gradients_keep_more_bits() -> None:
    x, seed = np.array([3.0, 5.0]) / 2**8, {"y": [2.0**-4, 2.0**-10]}
    plain = rg.vjp(squares, [0.0, 0.0], x, scale=0, format=FORMAT)[1](seed).x[1]
    auto = rg.vjp(squares, [0.0, 0.0], x, format=FORMAT)[1](seed).x[1]
    assert auto == 2 * 5 / 2**18
    assert abs(plain - auto) >= 2.0**-18


def test_an_overflow_at_every_scale_is_raised() -> None:
    with pytest.raises(rg.ProgramTrap) as raised:
        rg.grad(product, "a", format="32,24")(0.0, 0.001, [120.0, 1.0])
    assert raised.value.code == "RG0404"


def test_a_trap_of_another_kind_is_raised_at_once() -> None:
    @reversible
    def quotient(y: fixed, x: fixed):
        y += 1 / x

    with pytest.raises(rg.ProgramTrap) as raised:
        rg.grad(quotient)(0.0, 0.0)
    assert raised.value.code == "RG0402"


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grad", "examples/hypot.py:hypot", "0", "3", "4"]) == 0
    assert "2^" not in capsys.readouterr().out, "the first scale of the list goes without saying"
    source = "from retrograd import *\n@reversible\ndef steep(y: fixed, x: fixed):\n    y += 40000 * x\n"
    (tmp_path / "steep.py").write_text(source, encoding="utf-8")
    assert main(["grad", f"{tmp_path}/steep.py:steep", "0", "1", "--scale", "auto"]) == 0
    assert "the way back began with the cotangent 2^8" in capsys.readouterr().out


def test_names_of_scales() -> None:
    for wrong in ("car", 31, -33, 1.5):
        with pytest.raises(rg.NotDifferentiable) as raised:
            rg.grad(product, scale=wrong)(0.0, 1.0, [1.0])  # type: ignore[arg-type]
        assert str(Format()) in str(raised.value)
