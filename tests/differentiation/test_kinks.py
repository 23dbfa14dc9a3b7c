"""At a kink the first derivative is that of one side, or 0, in every mode; a second derivative traps, and is never a plausible number."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.ir.statements import Check

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.derivatives._requests import DerivedProgram, plan_of, second_order_program


@reversible
def root(y: fixed, x: fixed, z: fixed):
    y += rg.sqrt(x) * z


@reversible
def squared_norm(y: fixed, x: fixed, z: fixed):
    y += rg.sqrt(x * x + z * z) ** 2


@reversible
def eigenvalues(y: fixed, x: fixed, z: fixed):
    """Squared, of the matrix ((1 + x, z), (z, 1))."""
    with rg.routine() as r:
        m = 1 + x / 2
        d = rg.sqrt((x / 2) ** 2 + z * z)
        u, v = m + d, m - d
    y += u * u + v * v
    ~r


@reversible
def in_a_loop(y: fixed, x: fixed, z: fixed):
    for i in range(3):
        with rg.routine() as r:
            t = rg.zeros(2)
            t[0] += rg.sqrt(x * i)
            t[1] += t[0] * z
        y += t[1] * t[1]
        ~r


@reversible
def size_times(y: fixed, x: fixed, z: fixed):
    y += abs(x) * (x + z)


@reversible
def far(y: fixed, x: fixed, z: fixed):
    y += rg.hypot(x, z)


@reversible
def cube_root(y: fixed, x: fixed, z: fixed):
    y += rg.cbrt(x) * z


@reversible
def of_complex(y: fixed, x: fixed, z: fixed):
    with rg.routine() as r:
        c = rg.library.Complex(x, z)
    y += abs(c)
    ~r


@reversible
def angle(y: fixed, x: fixed, z: fixed):
    y += rg.acos(1 - x) * z


#: function -> a point with a kink for derivatives by x
KINKS: list[tuple[Any, tuple[float, float]]] = [
    (root, (0.0, 2.0)),
    (squared_norm, (0.0, 0.0)),
    (eigenvalues, (0.0, 0.0)),
    (in_a_loop, (0.0, 2.0)),
    (size_times, (0.0, 1.0)),
    (far, (0.0, 0.0)),
    (cube_root, (0.0, 2.0)),
    (of_complex, (0.0, 0.0)),
    (angle, (0.0, 2.0)),
]
by_name = pytest.mark.parametrize(("f", "at"), KINKS, ids=[f.__name__ for f, _ in KINKS])


def tangent_of_gradient(f: Any, x: float, z: float) -> Any:
    return rg.jvp(rg.reversible_gradient(f, "x"), (0.0, x, z, 0.0), {"x": 1.0})[1].d_x


SECOND: dict[str, Callable[[Any, float, float], Any]] = {
    "hessian": lambda f, x, z: rg.hessian(f, ("x", "z"))(0.0, x, z),
    "hvp": lambda f, x, z: rg.hvp(f, "x")((0.0, x, z), 1.0),
    "grad of grad": lambda f, x, z: rg.grad(rg.grad(f, "x"), "x")(0.0, x, z),
    "by another": lambda f, x, z: rg.grad(rg.grad(f, "x"), "z")(0.0, x, z),
    "jvp of the gradient": tangent_of_gradient,
    "vmap": lambda f, x, z: rg.vmap(rg.grad(rg.grad(f, "x"), "x"), (None, 0, None))(0.0, [1.0, x], z),
    "auto": lambda f, x, z: rg.hessian(f, "x", scale="auto")(0.0, x, z),
    "reference": lambda f, x, z: rg.hessian(f, "x", engine="reference")(0.0, x, z),
    "level 0": lambda f, x, z: rg.hessian(f.with_options(level=0), "x")(0.0, x, z),
}  # fmt: skip


@by_name
@pytest.mark.parametrize("form", SECOND)
def test_a_second_derivative_at_a_kink_traps_with_its_place(f: Any, at: tuple[float, float], form: str) -> None:
    with pytest.raises(rg.RetrogradError, match="has no second derivative at 0") as caught:
        SECOND[form](f, *at)
    d = caught.value.diagnostics[0]
    assert d.code == "RG0815"
    assert d.span is not None
    # At level 0 a function of the library is called, and has its own place.
    assert d.span.file.endswith("test_kinks.py" if form != "level 0" else ("test_kinks.py", "elementary.py"))


@by_name
def test_first_derivatives_at_a_kink_agree_in_all_modes(f: Any, at: tuple[float, float]) -> None:
    found = rg.grad(f, "x")(0.0, *at)
    assert found == (1.0 if f is size_times else 2.0 if f is eigenvalues else 0.0)
    assert rg.jvp(f, (0.0, *at), {"x": 1.0})[1].y == found
    assert rg.vjp(f, 0.0, *at)[1]({"y": 1.0}).x == found
    assert rg.gradient_report(f, "x")(0.0, *at).gradients == found
    assert rg.reversible_gradient(f, "x")(0.0, *at, 0.0).d_x == found
    assert rg.vmap(rg.grad(f, "x"), (None, 0, None))(0.0, [at[0]], at[1]).tolist() == [found]


@by_name
def test_beside_a_kink_second_derivatives_are_those_of_differences(f: Any, at: tuple[float, float]) -> None:
    x, z, h = at[0] + 0.5, at[1] + 0.25, 2.0**-8
    slope = rg.grad(f, "x", format="Q16.48")
    expected = (slope(0.0, x + h, z) - slope(0.0, x - h, z)) / (2 * h)
    assert rg.hvp(f, "x")((0.0, x, z), 1.0) == pytest.approx(expected, rel=1e-3, abs=1e-6)


@reversible
def sizes(y: fixed, x: fixed, z: fixed):
    y += 3 * abs(x) - abs(x) * z


@pytest.mark.parametrize("at", [(0.0, 2.0), (-1.5, 2.0), (0.25, -1.0)])
def test_a_size_by_itself_has_the_second_derivative_of_both_sides(at: tuple[float, float]) -> None:
    assert rg.hessian(sizes, "x")(0.0, *at) == rg.hvp(sizes, "x")((0.0, *at), 1.0) == 0.0


def test_what_does_not_depend_on_the_root_has_its_second_derivative() -> None:
    @reversible
    def f(y: fixed, x: fixed, z: fixed):
        y += rg.sqrt(x) * z * z

    assert rg.hessian(f, "z")(0.0, 0.0, 2.0) == 0.0
    assert rg.hessian(f, "z")(0.0, 4.0, 2.0) == 4.0

    @reversible
    def guarded(y: fixed, x: Array[fixed, "n"]):
        with rg.routine() as r:
            s = rg.sum(x * x)
        if s > 0:
            y += rg.sqrt(s)
        y += x[0] * x[1]
        ~r

    assert rg.hessian(guarded, "x")(0.0, [0.0, 0.0]).tolist() == [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_odd_functions_are_smooth_at_zero(name: str) -> None:
    function = getattr(rg, name)

    @reversible
    def f(y: fixed, x: fixed):
        y += function(x) * (1 + x)

    slope = {"tanh": 1.0, "erf": 2 / math.sqrt(math.pi)}[name]
    assert rg.hessian(f, "x")(0.0, 0.0) == pytest.approx(2 * slope, abs=1e-8)


@pytest.mark.parametrize("at", [(3.0, 0.0), (0.0, -2.0), (-3.0, 0.0)])
def test_sizes_are_smooth_on_the_axes(at: tuple[float, float]) -> None:
    size = math.hypot(*at)
    expected = [[at[1] ** 2 / size**3, 0.0], [0.0, at[0] ** 2 / size**3]]
    for f in (far, of_complex):
        assert np.allclose(rg.hessian(f, ("x", "z"))(0.0, *at), expected, atol=1e-8)


@pytest.mark.parametrize("at", [(0.0, 2.0), (0.0, -2.0), (3.0, 0.0)])
def test_angles_are_smooth_on_the_axes(at: tuple[float, float]) -> None:
    @reversible
    def f(y: fixed, x: fixed, z: fixed):
        y += rg.atan2(x, z)

    (x, z), s = at, at[0] ** 2 + at[1] ** 2
    expected = np.array([[-2 * x * z, x * x - z * z], [x * x - z * z, 2 * x * z]]) / s**2
    assert np.allclose(rg.hessian(f, ("x", "z"))(0.0, *at), expected, atol=1e-8)


@pytest.mark.parametrize("at", [2j, -0.5j, 3 + 0j, 1 + 2j])
def test_a_complex_root_is_smooth_where_its_argument_is_on_an_axis(at: complex) -> None:
    @reversible
    def f(y: complex, x: fixed, z: fixed):
        with rg.routine() as r:
            c = complex(x, z)
        y += rg.sqrt(c)
        ~r

    second = -1 / (4 * cmath.sqrt(at) ** 3)
    found = rg.hvp(f, "x", loss="y.re")((0j, at.real, at.imag), 1.0)
    assert found == pytest.approx(second.real, abs=1e-7)
    assert rg.hvp(f, "x", loss="y.im")((0j, at.real, at.imag), 1.0) == pytest.approx(second.imag, abs=1e-7)


@by_name
def test_first_derivatives_are_not_tested_for_kinks(f: Any, at: tuple[float, float]) -> None:
    request = rg.grad(f, "x", scale=0).request
    compiled = request.compiled(request.values((0.0, *at), {}))
    plan = plan_of(request, compiled)
    program, second = plan.program, second_order_program(compiled, False, plan.wanted, plan.loss, 0)

    def tests(of: DerivedProgram) -> list[Any]:
        return [n for n in of.compiled.emitted.checks.values() if isinstance(n, Check) and n.code == "RG0815"]

    assert not tests(program)
    assert tests(second)


def test_a_report_is_refused_for_the_derivatives_that_it_is_asked_for_alone() -> None:
    slope = rg.reversible_gradient(size_times, "x")

    @reversible
    def f(y: fixed, z: fixed, x: fixed):
        with rg.routine() as r:
            g, u = fixed(0), fixed(0)
            slope(u, x, z * 0 + 1, g)
        y += g + z * z
        ~r

    assert rg.grad(f, "z")(0.0, 3.0, 0.5) == rg.gradient_report(f, "z")(0.0, 3.0, 0.5).gradients == 6.0
    for derive in (rg.grad, rg.gradient_report):
        with pytest.raises(rg.ProgramTrap, match="abs has no second derivative at 0"):
            derive(f, "x")(0.0, 3.0, 0.0)

    @reversible
    def apart(y: fixed, z: fixed, x: fixed):
        with rg.routine() as r:
            g, u = fixed(0), fixed(0)
            slope(u, x, 1, g)
        y += g + z * z
        ~r

    assert rg.grad(apart, "z")(0.0, 3.0, 0.0) == rg.gradient_report(apart, "z")(0.0, 3.0, 0.0).gradients == 6.0
