"""rg.reversible_gradient: gradients as reversible functions, called, inverted and differentiated within others."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.library import Complex, Vector3, logsumexp, matvec
from retrograd.testing import fixed_numbers

ULP = 2.0**-32


@reversible
def mixed(y: fixed, x: fixed, z: fixed):
    y += rg.exp(x) * z + x * x * x


@reversible
def cubes(y: fixed, v: Array[fixed, "n"]):
    for i in range(len(v)):
        y += v[i] * v[i] * v[i]


@reversible
def table(y: fixed, a: Array[fixed, "n", "m"]):
    """Σ (3i + j + 1) aᵢⱼ²"""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            y += a[i, j] * a[i, j] * (3 * i + j + 1)


@reversible
def turning(y: fixed, x: fixed, n: int, v: Array[fixed, 3]):
    """Changes all that it is given."""
    x += 2.0
    n += 3
    for i in range(3):
        v[i] += x * (i + 1)
    v[0], v[2] = v[2], v[0]
    rg.rot(v[0], v[1], x)
    y += v[0] * x * n + v[1]


@reversible
def local(y: fixed, x: fixed):
    """x² + 3x³ + x·sin x², by way of an array and a routine."""
    t = rg.zeros(3)
    with rg.routine() as r:
        t[0] += x * x
        t[1] += t[0] * x * 3
        t[2] += rg.sin(t[0])
    y += t[0] + t[1] + t[2] * x
    ~r


@reversible
def descending(y: fixed, x: fixed, n: int):
    """Recursion, each call with an array of its own: 3x² + 2x⁴ + x⁸ for n = 3."""
    t = rg.zeros(2)
    with rg.routine() as r:
        t[0] += x
        t[1] += t[0] * x
    if n > 0:
        y += t[1] * n
        descending(y, t[1], n - 1)
    ~r


@reversible
def uncalling(y: fixed, x: fixed):
    t = fixed(0)
    square(t, x)
    y += t * x
    ~square(t, x)
    ~square(y, x)


@reversible
def square(y: fixed, x: fixed):
    y += x * x


@reversible
def halving(y: fixed, x: fixed):
    with rg.routine() as r:
        k = 0
        p = fixed(0)
        p += x
        while (p > 0.125, k > 0):
            q = p / 2
            p -= q
            k += 1
            rg.free(q, p)
    y += p * x * k
    ~r


@reversible
def branching(y: fixed, x: fixed, z: fixed):
    if x > z:
        y += rg.sqrt(x) * z
    else:
        y += rg.atan2(x, z)


@reversible
def of_lognums(y: fixed, s: lognum, t: Array[lognum, 2]):
    y += fixed(s * s / t[0])
    y += fixed(t[0] + t[1])


@reversible
def of_structs(y: fixed, z: Complex, ws: Array[Complex, "n"]):
    for w in ws:
        y += z.re * w.im + z.im * z.im * w.re


CASES: list[tuple[rg.Reversible | rg.Inverse, tuple[Any, ...]]] = [
    (mixed, (0.5, 1.25, 2.0)),
    (cubes, (0.0, np.array([1.0, -2.0, 0.3]))),
    (table, (0.0, np.arange(6.0).reshape(2, 3) - 2.3)),
    (turning, (0.1, 0.7, 2, np.array([1.0, 2.0, 3.0]))),
    (local, (0.25, 1.1)),
    (descending, (0.0, 1.1, 3)),
    (uncalling, (0.0, -1.3)),
    (halving, (0.0, 5.0)),
    (branching, (0.0, 2.2, 0.7)),
    (branching, (0.0, 0.7, -2.2)),
    (of_lognums, (0.0, -3.0, np.array([2.0, 0.7]))),
    (of_structs, (0.0, 1 + 2j, np.array([0.5 - 1j, 3 + 0.1j]))),
    (~mixed, (0.5, 1.25, 2.0)),
    (~turning, (0.1, 0.7, 2, np.array([1.0, 2.0, 3.0]))),
    (logsumexp, (0.0, np.array([0.5, -1.0, 2.0]))),
]
IDS = [f.__name__ for f, _ in CASES]


def empty(value: Any) -> Any:
    """What begins to gain a gradient like this one."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return np.array([empty(x) for x in value.ravel()], dtype=object).reshape(value.shape)
    if isinstance(value, Complex):
        return Complex(0.0, 0.0)
    return np.zeros_like(value) if isinstance(value, np.ndarray) else 0.0


def flat(value: Any) -> list[float]:
    if isinstance(value, np.ndarray):
        return [x for item in value.ravel().tolist() for x in flat(item)]
    return [value.re, value.im] if isinstance(value, Complex) else [float(value)]


def central(function: Any, x: float, h: float = 1e-4) -> float:
    return float((function(x + h) - function(x - h)) / (2 * h))


# ---------------------------------------------------------------------- what they compute


@pytest.mark.parametrize(("f", "arguments"), CASES, ids=IDS)
def test_it_adds_what_grad_says(f: Any, arguments: tuple[Any, ...]) -> None:
    expected = rg.grad(f)(*arguments)
    df = rg.reversible_gradient(f)
    out = df(*arguments, *(empty(g) for g in expected))
    # Cotangents meet in another order where a variable is read twice.
    for name, wanted in expected._asdict().items():
        assert flat(getattr(out, f"d_{name}")) == pytest.approx(flat(wanted), rel=0, abs=8 * ULP), name
    assert any(x for wanted in expected for x in flat(wanted))
    # A second time it adds to what is there.
    again = df(*out)
    for name in expected._fields:
        twice = [2 * x for x in flat(getattr(out, f"d_{name}"))]
        assert flat(getattr(again, f"d_{name}")) == twice


@pytest.mark.parametrize(("f", "arguments"), CASES, ids=IDS)
@pytest.mark.parametrize("level", [0, 1])
def test_forward_and_back_to_the_bit(f: Any, arguments: tuple[Any, ...], level: int) -> None:
    gradients = [empty(g) for g in rg.grad(f)(*arguments)]
    function = ~f if isinstance(f, rg.Inverse) else f
    compiled = function.with_options(level=level)
    df = rg.reversible_gradient(~compiled if isinstance(f, rg.Inverse) else compiled)
    result = rg.run(df, *arguments, *gradients)
    before = rg.run(function, *arguments)
    before.machine.run_back()
    machine = result.machine
    assert result.erased_bits == 0
    assert not any(machine.registers)
    # All arguments of f are what they were; beside them only the gradients have changed.
    own = before.compiled.argument_words
    assert machine.memory[:own] == before.machine.memory[:own]
    gained = result.compiled.argument_words - own
    assert any(machine.memory[own : own + gained])
    assert not any(machine.memory[own + gained :])
    machine.run_back()
    assert machine.memory[:own] == before.machine.memory[:own]
    assert not any(machine.memory[own:])
    assert not any(machine.registers)
    assert machine.erased_bits == 0
    assert df.options.level == level


@pytest.mark.parametrize(("f", "arguments"), CASES, ids=IDS)
def test_levels_agree_to_the_bit(f: Any, arguments: tuple[Any, ...]) -> None:
    gradients = [empty(g) for g in rg.grad(f)(*arguments)]
    df = rg.reversible_gradient(f)
    words = [rg.run(df.with_options(level=level), *arguments, *gradients).words for level in (0, 1)]
    assert words[0] == words[1]


@settings(max_examples=15)
@given(fixed_numbers(low=-2, high=2), fixed_numbers(low=-2, high=2))
def test_against_a_closed_form(x: float, z: float) -> None:
    out = rg.reversible_gradient(mixed)(0.0, x, z, 1.0, -1.0)
    assert out.d_x == pytest.approx(1 + math.exp(x) * z + 3 * x * x, abs=1e-8)
    assert out.d_z == pytest.approx(math.exp(x) - 1, abs=1e-8)
    assert rg.reversible_gradient(~mixed)(0.0, x, z, 0.0, 0.0).d_z == pytest.approx(-math.exp(x), abs=1e-8)
    back = (~rg.reversible_gradient(mixed))(*out)
    assert (back.y, back.d_x, back.d_z) == (0.0, 1.0, -1.0)


def test_a_loss_that_does_not_depend_on_it_gains_nothing() -> None:
    @reversible
    def other(y: fixed, x: fixed, v: Array[fixed, 2], u: fixed):
        y += u * u
        v[0] += x

    out = rg.reversible_gradient(other, ("x", "v", "u"))(0.0, 2.0, [1.0, 1.0], 3.0, 5.0, [6.0, 7.0], 8.0)
    assert (out.d_x, out.d_v.tolist(), out.d_u) == (5.0, [6.0, 7.0], 14.0)
    alone = rg.reversible_gradient(other, ("x", "v"))(0.0, 2.0, [1.0, 1.0], 3.0, 5.0, [6.0, 7.0])
    assert (alone.d_x, alone.d_v.tolist()) == (5.0, [6.0, 7.0])

    @reversible
    def idle(y: fixed, x: fixed):
        pass

    assert rg.reversible_gradient(idle)(0.0, 2.0, 1.0) == (0.0, 2.0, 1.0)


def test_the_loss_before_is_an_input_too() -> None:
    assert rg.reversible_gradient(mixed, ("y", "z"))(0.0, 0.0, 2.0, 0.5, 0.5) == (0.0, 0.0, 2.0, 1.5, 1.5)


def test_another_argument_can_be_the_loss() -> None:
    found = rg.reversible_gradient(turning, ("y", "x"), loss="x")(0.0, 1.0, 0, np.zeros(3), 0.0, 0.0)
    assert (found.d_y, found.d_x) == (0.0, 1.0)


def test_other_formats() -> None:
    df = rg.reversible_gradient(branching)
    narrow = rg.run(df, 0.0, 2.25, 0.5, 0.0, 0.0, format=rg.Format(32, 16))
    assert narrow.values.d_x == pytest.approx(0.5 / (2 * 1.5), abs=4 * 2.0**-16)
    assert narrow.values.d_z == 1.5
    assert narrow.erased_bits == 0
    own = rg.reversible_gradient(branching.with_options(format=rg.Format(32, 16)))
    assert own(0.0, 2.25, 0.5, 0.0, 0.0) == narrow.values


def test_erase_mode_changes_no_result() -> None:
    @reversible
    def outer(y: fixed, x: fixed):
        with rg.routine() as r:
            g = fixed(0)
            unused = fixed(0)
            gradient_of_square(unused, x, g)
        y += g * g
        ~r

    reversible_run, erasing = rg.run(outer, 0.0, 3.0), rg.run(outer.with_options(erase=True), 0.0, 3.0)
    assert reversible_run.values == erasing.values == (36.0, 3.0)
    assert reversible_run.erased_bits == 0 < erasing.erased_bits
    assert erasing.steps < reversible_run.steps
    alone = gradient_of_local.with_options(erase=True)
    assert alone(0.0, 1.1, 0.0) == gradient_of_local(0.0, 1.1, 0.0)


gradient_of_local = rg.reversible_gradient(local)
gradient_of_mixed = rg.reversible_gradient(mixed)
gradient_of_cubes = rg.reversible_gradient(cubes)
gradient_of_table = rg.reversible_gradient(table)
gradient_of_square = rg.reversible_gradient(square)

# ---------------------------------------------------------------------- within functions


def test_in_a_for_loop() -> None:
    @reversible
    def many(total: fixed, xs: Array[fixed, "n"], z: fixed, gs: Array[fixed, "n"]):
        gz = fixed(0)
        for i in range(len(xs)):
            gradient_of_mixed(total, xs[i], z, gs[i], gz)
        total += gz
        for i in range(len(xs)):
            ~gradient_of_mixed(total, xs[i], z, gs[i], gz)
        for i in range(len(xs)):
            gs[i] += gz

    xs = np.array([0.5, -1.0, 1.5])
    result = rg.run(many, 0.0, xs, 2.0, np.zeros(3))
    assert result.values.total == pytest.approx(np.exp(xs).sum(), abs=1e-8)
    assert result.values.gs.tolist() == [0.0, 0.0, 0.0]
    assert result.erased_bits == 0
    assert rg.grad(many, "xs")(0.0, xs, 2.0, np.zeros(3)) == pytest.approx(np.exp(xs), abs=1e-8)
    assert rg.hessian(many, "xs")(0.0, xs, 2.0, np.zeros(3)) == pytest.approx(np.diag(np.exp(xs)), abs=1e-8)


def test_on_each_element() -> None:
    @reversible
    def all_of(ys: Array[fixed, "n"], xs: Array[fixed, "n"], gs: Array[fixed, "n"]):
        gradient_of_square.each(ys, xs, gs)

    assert all_of(np.ones(3), [1.0, 2.0, 3.0], np.ones(3)).gs.tolist() == [3.0, 5.0, 7.0]


@reversible
def quartic(y: fixed, x: fixed):
    y += x * x * x * x / 4 - x


gradient_of_quartic = rg.reversible_gradient(quartic)


@reversible
def descend(loss: fixed, x: fixed, rate: fixed, trail: rg.Stack[fixed, 100], n: int):
    """Gradient descent on x⁴/4 − x until x is near its minimum, 1; every step is kept, so that the way back is known."""
    y = fixed(0)
    while (abs(x - 1) > 0.01, n > 0):
        g = fixed(0)
        gradient_of_quartic(y, x, g)
        x -= g * rate
        rg.push(trail, g)
        n += 1
    loss += x * x


def descent(x: Any, rate: Any) -> tuple[Any, int]:
    n = 0
    while abs(x - 1) > 0.01:
        x -= (x**3 - 1) * rate
        n += 1
    return x * x, n


@pytest.mark.parametrize("start", [2.0, 0.5, 1.0])
def test_descent_with_a_trip_count_that_depends_on_the_data(start: float) -> None:
    out = descend(0.0, start, 0.125, [], 0)
    expected, n = descent(mpmath.mpf(start), mpmath.mpf("0.125"))
    assert out.n == n
    assert out.loss == pytest.approx(float(expected), abs=1e-7)
    back = (~descend)(*out)
    assert (back.loss, back.x, back.n, len(back.trail)) == (0.0, start, 0, 0)
    # Differentiated in its turn: second derivatives of the quartic, through all steps.
    gx, grate = rg.grad(descend, ("x", "rate"))(0.0, start, 0.125, [], 0)
    with mpmath.workdps(30):
        h = mpmath.mpf(10) ** -10
        x, rate = mpmath.mpf(start), mpmath.mpf("0.125")
        by_x = (descent(x + h, rate)[0] - descent(x - h, rate)[0]) / (2 * h)
        by_rate = (descent(x, rate + h)[0] - descent(x, rate - h)[0]) / (2 * h)
    assert gx == pytest.approx(float(by_x), abs=1e-7)
    assert grate == pytest.approx(float(by_rate), abs=1e-6)
    assert n > 4 or start == 1.0
    assert rg.jvp(descend, (0.0, start, 0.125, [], 0), {"x": 1.0})[1].loss == pytest.approx(gx, abs=1e-7)


def test_two_gradients_in_one_function() -> None:
    @reversible
    def both(y: fixed, x: fixed, v: Array[fixed, 3], out: fixed):
        with rg.routine() as r:
            gx = fixed(0)
            gz = fixed(0)
            gv = rg.zeros(3)
            gradient_of_mixed(y, x, v[0], gx, gz)
            gradient_of_cubes(y, v, gv)
        out += gx * gz + gv[0] * gv[2]
        ~r

    v = np.array([0.5, 2.0, 1.5])
    e = math.exp(0.75)
    result = rg.run(both, 0.0, 0.75, v, 0.0)
    expected = (e * 0.5 + 3 * 0.75**2) * e + 9 * 0.25 * 2.25
    assert result.values.out == pytest.approx(expected, abs=1e-7)
    assert result.values.y == 0.0
    found = rg.grad(both, ("x", "v"), loss="out")(0.0, 0.75, v, 0.0)
    assert found[0] == pytest.approx((e * 0.5 + 6 * 0.75) * e + (e * 0.5 + 3 * 0.75**2) * e, abs=1e-7)
    assert found[1] == pytest.approx([e * e + 18 * 0.5 * 2.25, 0, 18 * 0.25 * 1.5], abs=1e-7)


def test_of_different_losses_and_arguments_of_one_function() -> None:
    by_x, by_z = rg.reversible_gradient(turning, "x"), rg.reversible_gradient(turning, "v", loss="x")

    @reversible
    def both(y: fixed, x: fixed, n: int, v: Array[fixed, 3], d: fixed, dv: Array[fixed, 3]):
        by_x(y, x, n, v, d)
        by_z(y, x, n, v, dv)
        ~by_x(y, x, n, v, dv[1])

    arguments = 0.1, 0.7, 2, np.array([1.0, 2.0, 3.0])
    out = both(*arguments, 0.0, np.zeros(3))
    expected = rg.grad(turning, "x")(*arguments)
    assert out.d == pytest.approx(expected, abs=8 * ULP)
    assert out.dv.tolist() == [0.0, -out.d, 0.0]


def test_in_a_recursive_function() -> None:
    @reversible
    def falling(y: fixed, x: fixed, n: int):
        """Newton's way in n steps, the innermost first: y += the sum of all gradients."""
        g = fixed(0)
        u = fixed(0)
        with rg.routine() as r:
            gradient_of_square(u, x, g)
        if n > 0:
            falling(y, x - g / 4, n - 1)
        y += g
        ~r

    # g = 2x, and x halves at each step.
    assert falling(0.0, 4.0, 3).y == 8.0 + 4.0 + 2.0 + 1.0
    assert rg.grad(falling, "x")(0.0, 4.0, 3) == 2 + 1 + 0.5 + 0.25
    assert rg.reversible_gradient(falling, "x")(0.0, 4.0, 3, 0.0).d_x == 3.75


@reversible
def slices(y: fixed, v: Array[fixed, 6], g: Array[fixed, 8]):
    gradient_of_cubes(y, v[1:4], g[:3])
    gradient_of_cubes(y, v[::2], g[6:0:-2])
    gradient_of_cubes(y, v[::-3], g[3:5])


@reversible
def transposed(y: fixed, a: Array[fixed, 2, 3], g: Array[fixed, 3, 2], h: Array[fixed, 4, 3]):
    gradient_of_table(y, a, g.T)
    gradient_of_table(y, a.T, g)
    gradient_of_table(y, a, h[::2])
    gradient_of_cubes(y, a[1], h[1])
    gradient_of_cubes(y, a[:, 1], h[2:, 0])


def test_slices_and_strided_and_reversed_views() -> None:
    v = np.arange(1.0, 7.0)
    expected = np.zeros(8)
    expected[:3] += 3 * v[1:4] ** 2
    expected[6:0:-2] += 3 * v[::2] ** 2
    expected[3:5] += 3 * v[::-3] ** 2
    out = slices(0.0, v, np.zeros(8))
    assert out.g.tolist() == expected.tolist()
    assert not (~slices)(*out).g.any()


def test_matrices_and_their_transposes() -> None:
    a = np.arange(6.0).reshape(2, 3) + 1
    weights = 2 * (3 * np.arange(2)[:, None] + np.arange(3) + 1)
    turned = 2 * (3 * np.arange(3)[:, None] + np.arange(2) + 1)
    g = (weights * a).T + turned * a.T
    h = np.zeros((4, 3))
    h[::2] += weights * a
    h[1] += 3 * a[1] ** 2
    h[2:, 0] += 3 * a[:, 1] ** 2
    out = transposed(0.0, a, np.zeros((3, 2)), np.zeros((4, 3)))
    assert out.g.tolist() == g.tolist()
    assert out.h.tolist() == h.tolist()
    back = (~transposed)(*out)
    assert not back.g.any()
    assert not back.h.any()


def test_gradient_and_argument_in_one_array() -> None:
    @reversible
    def halves(y: fixed, v: Array[fixed, 4]):
        gradient_of_cubes(y, v[:2], v[2:])

    assert halves(0.0, [1.0, 2.0, 0.5, 0.5]).v.tolist() == [1.0, 2.0, 3.5, 12.5]


def test_structs_and_methods() -> None:
    @rg.struct
    class Point:
        a: fixed
        b: fixed

        @reversible
        def energy(self, y: fixed):
            y += self.a * self.a * self.b

        slope = rg.reversible_gradient(energy, "self", loss="y")

    energy_slope = rg.reversible_gradient(Point.energy, 0, loss=1)

    @reversible
    def both(p: Point, y: fixed, g: Point, ps: Array[Point, 2]):
        p.slope(y, g)
        energy_slope(ps[0], y, ps[1])

    zero = Point(0.0, 0.0)
    out = both(Point(2.0, 3.0), 0.0, zero, [Point(1.0, 5.0), Point(0.5, 0.5)])
    assert out.g == Point(12.0, 4.0)
    assert list(out.ps) == [Point(1.0, 5.0), Point(10.5, 1.5)]
    assert Point(2.0, 3.0).slope(0.0, zero).d_self == Point(12.0, 4.0)


def test_structs_with_arrays_in_them() -> None:
    @rg.struct
    class Layer:
        w: Array[fixed, 2]
        b: fixed

    @reversible
    def apply(y: fixed, layer: Layer, x: Array[fixed, 2]):
        with rg.routine() as r:
            t = layer.w[0] * x[0] + layer.w[1] * x[1] + layer.b
        y += t * t
        ~r

    out = rg.reversible_gradient(apply, "layer")(0.0, Layer([1.0, 2.0], 3.0), [0.5, 0.25], Layer([0.0, 0.0], 1.0))
    assert out.d_layer.w.tolist() == [4.0, 2.0]
    assert out.d_layer.b == 9.0


def test_static_arguments_and_functions_as_arguments() -> None:
    @reversible
    def repeated(y: fixed, x: fixed, n: rg.static = 3, k: fixed = 2.0):
        for _ in range(n):
            y += x * x * k

    slope = rg.reversible_gradient(repeated, "x")
    assert slope(0.0, 2.0, d_x=0.0).d_x == 24.0
    assert slope(0.0, 2.0, 1, 0.5, 0.0).d_x == 2.0

    @reversible
    def apply(y: fixed, x: fixed, f: rg.static):
        f(y, x)

    along = rg.reversible_gradient(apply)
    assert along(0.0, 3.0, square, 0.0).d_x == 6.0

    @reversible
    def stepped(y: fixed, x: fixed, d: fixed, slope_of: rg.static):
        along(y, x, square, d)
        along(y, x, quartic, d)
        slope_of(y, x, d)

    assert stepped(0.0, 3.0, 0.0, gradient_of_square).d == 6.0 + 26.0 + 6.0


def test_stacks_are_neither_kept_nor_lost() -> None:
    @reversible
    def stacked(y: fixed, x: fixed, s: rg.Stack[fixed, 4]):
        t = fixed(0)
        t += x * x
        rg.push(s, t)
        y += x
        rg.pop(s, t)
        y += t * x
        t -= x * x

    assert rg.reversible_gradient(stacked, "x")(0.0, 2.0, [1.0], 0.0) == (0.0, 2.0, [1.0], 13.0)


# ---------------------------------------------------------------------- gradients of gradients


SMOOTH = [
    (mixed, lambda x: mpmath.exp(x) * 2 + x**3, (0.0, 0.75, 2.0)),
    (local, lambda x: x**2 + 3 * x**3 + x * mpmath.sin(x * x), (0.0, 0.75)),
    (descending, lambda x: 3 * x**2 + 2 * x**4 + x**8, (0.0, 0.75, 3)),
    (uncalling, lambda x: x**3 - x**2, (0.0, 0.75)),
    (branching, lambda x: mpmath.sqrt(x) / 2, (0.0, 0.75, 0.5)),
    (branching, lambda x: mpmath.atan2(x, 2), (0.0, 0.75, 2.0)),
]


@pytest.mark.parametrize(("f", "exact", "arguments"), SMOOTH, ids=lambda p: getattr(p, "__name__", ""))
def test_the_second_derivative_by_every_way(f: rg.Reversible, exact: Any, arguments: tuple[Any, ...]) -> None:
    df = rg.reversible_gradient(f, "x")
    ddf = rg.reversible_gradient(df, "x", loss="d_x", keep=1 << 14)
    expected = float(mpmath.diff(exact, arguments[1], 2))
    by_machine = rg.grad(df, "x", loss="d_x")(*arguments, 0.0)
    by_program = ddf(*arguments, 0.0, 0.0)
    assert by_machine == pytest.approx(expected, abs=1e-8)
    assert by_program.d_x_ == pytest.approx(expected, abs=1e-8)
    assert by_program.d_x == 0.0
    assert rg.jvp(df, (*arguments, 0.0), {"x": 1.0})[1].d_x == pytest.approx(expected, abs=1e-8)
    assert rg.hessian(f, "x")(*arguments) == pytest.approx(expected, abs=1e-8)
    back = (~ddf)(*by_program)
    assert (back.d_x, back.d_x_) == (0.0, 0.0)
    result = rg.run(ddf, *arguments, 0.0, 0.0)
    assert result.erased_bits == 0
    assert not any(result.machine.registers)


def test_the_third_derivative() -> None:
    third = rg.reversible_gradient(
        rg.reversible_gradient(rg.reversible_gradient(mixed, "x"), "x", loss="d_x"), "x", loss="d_x_"
    )
    assert [p.name for p in third.parameters] == ["y", "x", "z", "d_x", "d_x_", "d_x__"]
    assert third(0.0, 1.0, 2.0, 0.0, 0.0, 0.0).d_x__ == pytest.approx(2 * math.e + 6, abs=1e-8)


def test_a_gradient_of_an_inverse_gradient() -> None:
    # ~df takes the gradient away: d_x falls by f″.
    back = rg.reversible_gradient(~rg.reversible_gradient(mixed, "x"), "x", loss="d_x")
    assert back(0.0, 0.0, 2.0, 0.0, 0.0).d_x_ == pytest.approx(-2.0, abs=1e-8)


@reversible
def penalty(y: fixed, x: Array[fixed, 3], a: Array[fixed, 3, 3]):
    """|∇ ½|a x|²|², the gradient taken within."""
    u = fixed(0)
    with rg.routine() as r:
        g = rg.zeros(3)
        gradient_of_half_norm(u, x, a, g)
    for i in range(3):
        y += g[i] * g[i]
    ~r


@reversible
def half_norm(y: fixed, x: Array[fixed, 3], a: Array[fixed, 3, 3]):
    with rg.routine() as r:
        b = rg.zeros(3)
        matvec(b, a, x)
    for i in range(3):
        y += b[i] * b[i] / 2
    ~r


gradient_of_half_norm = rg.reversible_gradient(half_norm, "x")


@pytest.mark.long
def test_a_penalty_on_a_gradient() -> None:
    a = np.array([[1.0, 2.0, 0.0], [0.5, -1.0, 1.0], [0.0, 0.25, 2.0]])
    x = np.array([1.0, -2.0, 0.5])
    m = a.T @ a
    assert penalty(0.0, x, a).y == pytest.approx(np.sum((m @ x) ** 2), abs=1e-7)
    assert rg.grad(penalty, "x")(0.0, x, a) == pytest.approx(2 * m @ m @ x, abs=1e-7)
    assert rg.hessian(penalty, "x")(0.0, x, a) == pytest.approx(2 * m @ m, abs=1e-7)
    assert rg.reversible_gradient(penalty, "x")(0.0, x, a, np.zeros(3)).d_x == pytest.approx(2 * m @ m @ x, abs=1e-7)
    direct = rg.grad(penalty, "a")(0.0, x, a)
    for i, j in ((0, 1), (2, 2), (1, 0)):

        def at(t: float, i: int = i, j: int = j) -> float:
            b = a.copy()
            b[i, j] = t
            return float(np.sum((b.T @ b @ x) ** 2))

        assert direct[i, j] == pytest.approx(central(at, a[i, j], 1e-5), rel=1e-6)


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: rg.reversible_gradient(max), "`max` is no reversible function"),
        (lambda: rg.reversible_gradient(mixed, "q"), "`mixed` has no argument 'q'"),
        (lambda: rg.reversible_gradient(mixed, "x", loss="q"), "`mixed` has no argument 'q'"),
        (lambda: rg.reversible_gradient(mixed, ("x", "x")), "`x` of `mixed` is chosen twice"),
        (lambda: rg.reversible_gradient(mixed, ()), "`mixed` has no argument to differentiate by"),
        (lambda: rg.reversible_gradient(turning, "n"), "`n` of `turning` is int: int has no derivative"),
        (lambda: rg.reversible_gradient(turning, "x", loss="n"), "the loss `n` of `turning` is int"),
        (lambda: rg.reversible_gradient(turning, "x", loss="v"), r"the loss `v` of `turning` is Array\[fixed, 3\]"),
        (lambda: rg.reversible_gradient(of_lognums, "t", loss="s"), "the loss `s` of `of_lognums` is lognum"),
        (lambda: rg.reversible_gradient(mixed, keep=0), "keep = 0"),
        (lambda: rg.reversible_gradient(mixed, keep=1.5), r"keep = 1\.5"),
        (lambda: rg.reversible_gradient(mixed, keep=True), "keep = True"),
    ],
)
def test_what_has_no_gradient_is_refused_at_once(ask: Any, said: str) -> None:
    with pytest.raises(rg.NotDifferentiable, match=said) as caught:
        ask()
    assert caught.value.diagnostics[0].code == "RG0603"


def test_a_gradient_by_a_struct_adds_to_its_fixed_numbers_and_leaves_its_ints() -> None:
    @rg.struct
    class Counted:
        a: fixed
        n: int
        xs: Array[fixed, "m"]

    @reversible
    def f(y: fixed, p: Counted, x: fixed):
        y += p.a * x
        for i in range(len(p.xs)):
            y += p.xs[i] ** p.n

    df = rg.reversible_gradient(f)
    assert [p.name for p in df.parameters] == ["y", "p", "x", "d_p", "d_x"]
    p = Counted(3.0, 2, [1.0, 4.0])
    found = df(0.0, p, 0.5, Counted(1.0, 7, [0.0, 1.0]), 2.0)
    assert (found.d_p.a, found.d_p.n, found.d_p.xs.tolist(), found.d_x) == (1.5, 7, [2.0, 9.0], 5.0)


def test_a_struct_with_a_lognum_has_no_gradient_of_its_shape() -> None:
    @rg.struct
    class Sized:
        a: fixed
        s: lognum

    @reversible
    def f(y: fixed, q: Array[Sized, 2], x: fixed):
        y += q[0].a * x

    # Not left out without a word either.
    for argnums in ("q", None):
        with pytest.raises(rg.NotDifferentiable, match=r"`q` of `f` is .*Sized.*: .* holds a lognum"):
            rg.reversible_gradient(f, argnums)
    assert rg.reversible_gradient(f, "x")(0.0, [Sized(2.0, 1.0)] * 2, 1.0, 0.0).d_x == 2.0


@reversible
def unannotated(y, v):
    for i in range(len(v)):
        y += v[i] * v[i]


gradient_of_unannotated = rg.reversible_gradient(unannotated, "v")


def test_without_annotations_types_are_those_of_the_call() -> None:
    assert gradient_of_unannotated(0.0, np.ones(3), np.zeros(3)).d_v.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(rg.NotDifferentiable, match="no argument to differentiate by"):
        rg.reversible_gradient(unannotated)
    for arguments in (
        (0.0, np.ones(3), np.zeros(2)),
        (0.0, np.ones(3), np.zeros(3, dtype=int)),
        (0.0, np.ones(3), 0.0),
        (0.0, np.ones(3, dtype=int), np.zeros(3, dtype=int)),
        (0, np.ones(3, dtype=int), np.zeros(3)),
    ):
        with pytest.raises(rg.CompileError) as caught:
            gradient_of_unannotated(*arguments)
        assert caught.value.diagnostics[0].code == "RG0715"


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(rg.InputError, match=r"`d_v` of `gradient_of_cubes`.*where n is 3 already"):
        gradient_of_cubes(0.0, np.ones(3), np.zeros(2))
    with pytest.raises(rg.InputError, match="`gradient_of_cubes` is called without `d_v`"):
        gradient_of_cubes(0.0, np.ones(3))

    @reversible
    def wrong(y: fixed, v: Array[fixed, 3], g: Array[fixed, 2]):
        gradient_of_cubes(y, v, g)

    with pytest.raises(rg.CompileError, match="`d_v` of `gradient_of_cubes`"):
        wrong(0.0, np.ones(3), np.zeros(2))


def refusal(f: rg.Reversible, *arguments: Any) -> rg.Diagnostic:
    with pytest.raises(rg.CompileError) as caught:
        f(*arguments)
    return caught.value.diagnostics[0]


def test_aliases_are_refused_as_for_the_function() -> None:
    @reversible
    def gains_twice(y: fixed, x: fixed):
        g = fixed(0)
        gradient_of_mixed(y, x, x, g, g)

    @reversible
    def gains_itself(y: fixed, x: fixed, z: fixed):
        gradient_of_mixed(y, x, z, x, z)

    @reversible
    def loses_itself(y: fixed, x: fixed, z: fixed):
        gradient_of_mixed(y, y, x, x, z)

    @reversible
    def overlaps(y: fixed, v: Array[fixed, 4]):
        gradient_of_cubes(y, v[:2], v[1:3])

    @reversible
    def takes_a_value(y: fixed, x: fixed, g: fixed):
        gradient_of_mixed(y, x, x, g, x + 1)

    @reversible
    def of_a_constant(x: fixed, g: fixed, h: fixed):
        gradient_of_mixed(0.0, x, x, g, h)

    assert refusal(gains_twice, 0.0, 1.0).code == "RG0705"
    assert refusal(gains_itself, 0.0, 1.0, 2.0).code == "RG0705"
    assert refusal(loses_itself, 0.0, 1.0, 2.0).code == "RG0705"
    assert refusal(overlaps, 0.0, np.ones(4)).code == "RG0705"
    assert refusal(takes_a_value, 0.0, 1.0, 0.0).code == "RG0709"
    assert "`gradient_of_mixed` changes `y`" in refusal(of_a_constant, 1.0, 0.0, 0.0).message


def test_what_is_only_read_may_be_one_thing_or_a_value() -> None:
    @reversible
    def shared(y: fixed, x: fixed, g: fixed, h: fixed):
        gradient_of_mixed(y, x, x, g, h)
        gradient_of_mixed(y, x * 2, x + 1, g, h)

    out = shared(0.0, 0.0, 0.0, 0.0)
    assert out == (0.0, 0.0, pytest.approx(0 + 1, abs=1e-8), pytest.approx(2, abs=1e-8))


@reversible
def selfish(y: fixed, x: fixed, g: fixed):
    gradient_of_selfish(y, x, g, g)


gradient_of_selfish = rg.reversible_gradient(selfish, "x")


@pytest.mark.parametrize("f", [selfish, gradient_of_selfish], ids=["itself", "its gradient"])
def test_a_function_that_takes_its_own_gradient(f: rg.Reversible) -> None:
    d = refusal(f, *[0.0] * len(f.parameters))
    assert d.code == "RG0719"
    assert "`selfish` takes the gradient of itself" in d.message


@pytest.mark.long
def test_too_little_room_says_how_much_there_is() -> None:
    narrow = rg.reversible_gradient(descending, "x", keep=3)
    with pytest.raises(rg.ProgramTrap, match="the memory of 3 words for kept cotangents is full") as caught:
        narrow(0.0, 1.1, 3, 0.0)
    d = caught.value.diagnostics[0]
    assert d.code == "RG0809"
    assert "keep" in (d.hint or rg.isa.diagnostics.KINDS["RG0809"].fix)
    # Nothing is lost: the machine runs back to where it began.
    machine = caught.value.machine
    machine.run_back()
    assert machine.at_origin
    assert not any(machine.registers)
    assert machine.erased_bits == 0
    enough = next(k for k in range(3, 200) if _runs(k))
    assert not _runs(enough - 1)
    assert rg.reversible_gradient(descending, "x", keep=np.int64(enough))(0.0, 1.1, 3, 0.0) == rg.reversible_gradient(
        descending, "x"
    )(0.0, 1.1, 3, 0.0)


def _runs(keep: int) -> bool:
    try:
        rg.reversible_gradient(descending, "x", keep=keep)(0.0, 1.1, 3, 0.0)
    except rg.ProgramTrap:
        return False
    return True


def test_traps_of_the_function_are_told_in_its_source() -> None:
    @reversible
    def guarded(y: fixed, x: fixed):
        assert x > 0
        y += rg.log(x)

    df = rg.reversible_gradient(guarded)
    assert df(0.0, 2.0, 0.0).d_x == 0.5
    with pytest.raises(rg.ProgramTrap, match="`x > 0` is false") as caught:
        df(0.0, -2.0, 0.0)
    assert caught.value.diagnostics[0].code == "RG0804"
    assert "assert x > 0" in str(caught.value)


def test_programs_that_erase_have_no_way_back() -> None:
    @reversible
    def erasing(y: fixed, x: fixed):
        t = x * x
        t += x
        y += t
        rg.erase(t)

    with pytest.raises(rg.ProgramTrap) as caught:
        rg.reversible_gradient(erasing)(0.0, 2.0, 0.0)
    assert caught.value.diagnostics[0].code == "RG0409"


# ---------------------------------------------------------------------- how they show themselves


def test_it_reads_like_any_reversible_function() -> None:
    df = rg.reversible_gradient(mixed)
    assert isinstance(df, rg.Reversible)
    assert isinstance(df, rg.ReversibleGradient)
    assert repr(df) == "<reversible gradient of mixed>"
    assert repr(~df) == "<inverse of <reversible gradient of mixed>>"
    assert df.__name__ == "gradient_of_mixed"
    assert df.__doc__ == "d_x += ∂y/∂x, d_z += ∂y/∂z; all else as it was."
    assert df.signature == "gradient_of_mixed(y: fixed, x: fixed, z: fixed, d_x: fixed, d_z: fixed)"
    twice = rg.reversible_gradient(df, "x", loss="d_z")
    assert repr(twice) == "<reversible gradient of gradient of mixed>"
    assert twice.__doc__ == "d_x_ += ∂d_z/∂x; all else as it was."
    assert ~~df is df
    assert "gradient_of_mixed" in df._repr_html_()
    assert df(0.0, 1.0, 2.0, 0.0, 0.0)._fields == ("y", "x", "z", "d_x", "d_z")
    other = df.with_options(level=0, format=rg.Format(32, 16))
    assert isinstance(other, rg.ReversibleGradient)
    assert repr(other) == repr(df)
    assert other.options.level == 0
    assert other.__doc__ == df.__doc__


def test_it_shows_what_it_is_compiled_to() -> None:
    df = rg.reversible_gradient(local)
    text = df.with_options(level=0).lower().as_text()
    assert "gradient_of_local" in text
    assert "x.bar" in text
    listing = df.assembly()
    # The lines of the function stand beside the instructions made of them.
    assert "t[2] += rg.sin(t[0])" in listing
    assert "fsin.add" in listing
    assert "fcos" in listing
    program = df.program()
    machine = rg.Machine(rg.assemble(listing))
    assert len(machine.program.code) == len(program.code)
    with pytest.raises(rg.InputError, match="the type of `v` is open"):
        gradient_of_cubes.assembly()
    assert "fmul" in gradient_of_cubes.assembly(0.0, np.ones(2), np.zeros(2))


def test_names_that_are_taken_are_made_longer() -> None:
    @reversible
    def named(y: fixed, x: fixed, d_x: fixed):
        y += x * x * d_x

    df = rg.reversible_gradient(named)
    assert [p.name for p in df.parameters] == ["y", "x", "d_x", "d_x_", "d_d_x"]
    out = df(0.0, 3.0, 2.0, 0.0, 0.0)
    assert (out.d_x, out.d_x_, out.d_d_x) == (2.0, 12.0, 9.0)


def test_vmap_and_the_other_derivatives_take_it() -> None:
    x = np.arange(3.0)
    out = rg.vmap(gradient_of_square, in_axes=(None, 0, None))(0.0, x, 1.0)
    assert out.d_x.tolist() == [1.0, 3.0, 5.0]
    found = rg.jacobian(gradient_of_table, "a", outputs="d_a")(0.0, np.ones((1, 3)), np.zeros((1, 3)))
    assert found.reshape(3, 3).tolist() == np.diag([2.0, 4.0, 6.0]).tolist()
    values, pullback = rg.vjp(gradient_of_square, 0.0, 3.0, 0.0)
    assert values.d_x == 6.0
    assert pullback({"d_x": 1.5}) == (0.0, 3.0, 1.5)
    assert rg.hessian(gradient_of_cubes, "v", loss="y")(0.0, np.ones(2), np.zeros(2)).tolist() == [[0, 0], [0, 0]]


def test_on_the_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from retrograd.cli.main import main

    file = tmp_path / "gradients.py"
    file.write_text(
        "import retrograd as rg\n"
        "from retrograd import fixed, reversible\n\n\n"
        "@reversible\n"
        "def f(y: fixed, x: fixed):\n"
        "    y += x * x\n\n\n"
        "df = rg.reversible_gradient(f)\n"
    )
    assert main(["run", f"{file}:df", "0.0", "3.0", "0.5"]) == 0
    assert "d_x = 6.5" in capsys.readouterr().out
    assert main(["run", f"{file}:~df", "0.0", "3.0", "6.5"]) == 0
    assert "d_x = 0.5" in capsys.readouterr().out
    assert main(["run", f"{file}:df", "0.0", "3.0"]) == 2
    assert "`gradient_of_f` is called without `d_x`" in capsys.readouterr().err
    assert main(["grad", f"{file}:df", "0.0", "3.0", "0.0", "--loss", "d_x", "--wrt", "x"]) == 0
    assert "∂d_x/∂x = 2.0" in capsys.readouterr().out


def test_vectors_of_the_library() -> None:
    @reversible
    def length(y: fixed, v: Vector3):
        y += rg.sqrt(v.x * v.x + v.y * v.y + v.z * v.z)

    out = rg.reversible_gradient(length)(0.0, Vector3(2.0, 3.0, 6.0), Vector3(0.0, 0.0, 0.0))
    assert [out.d_v.x, out.d_v.y, out.d_v.z] == pytest.approx([2 / 7, 3 / 7, 6 / 7], abs=2e-9)


@pytest.mark.parametrize("x", [5e-324, 1e-320, -1e-308, 1.0, -3.0, 1e300, -1.7e308])
@pytest.mark.parametrize("y", [5e-324, -1e-200, 7.0, 1.7e308])
def test_jacobians_of_lognums_at_the_ends_of_floats(x: float, y: float) -> None:
    """∂(xy)/∂x = y and ∂(xy)/∂y = x, also where xy or 1/x have no float."""

    @reversible
    def times(x: lognum, y: lognum):
        x *= y

    near = {name: float(v[0]) for name, v in (("x", rg.lognum.to_reals(rg.lognum.to_words([x]))),
                                             ("y", rg.lognum.to_reals(rg.lognum.to_words([y]))))}  # fmt: skip
    with np.errstate(all="raise", under="ignore"):
        dense = rg.jacobian(times, ("x", "y"), "x")(x, y)
        sparse = rg.jacobian(times, ("x", "y"), "x", pattern=np.ones((1, 2)))(x, y)
    assert dense == pytest.approx((near["y"], near["x"]), rel=1e-12, abs=0)
    assert sparse.data.tolist() == list(dense)
