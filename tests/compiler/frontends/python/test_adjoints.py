"""Adjoints of the user's own, against the automatic ones, and against differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.library import Complex
from retrograd.testing import check_gradient, check_inverse

LEVELS = pytest.mark.parametrize("level", [0, 1])
NUMBERS = st.integers(-32, 32).map(lambda n: n / 8)


def square(slope):
    """y += x², with an adjoint whose slope is 2x · slope."""

    @reversible
    def f(y: fixed, x: fixed):
        y += x * x

    @f.adjoint
    def _(y: fixed, x: fixed, d_y: fixed, d_x: fixed):
        d_x += 2 * slope * x * d_y

    return f


one, three = square(1), square(3)


@reversible
def composed(out: fixed, x: fixed, z: fixed, n: int):
    with rg.routine() as r:
        t = fixed(0)
        one(t, x)
        for i in range(n):
            one(t, z * i)
    out += t * z + one(z)
    if z > 0:
        out -= one(x)
    ~one(out, z - 1)
    ~r


@reversible
def plain(out: fixed, x: fixed, z: fixed, n: int):
    with rg.routine() as r:
        t = x * x
        for i in range(n):
            t += z * i * z * i
    out += t * z + z * z
    if z > 0:
        out -= x * x
    out -= (z - 1) * (z - 1)
    ~r


@LEVELS
@settings(max_examples=15)
@given(x=NUMBERS, z=NUMBERS)
def test_an_adjoint_like_the_automatic_one_gives_the_same(level, x, z):
    f, g = composed.with_options(level=level), plain.with_options(level=level)
    assert f(0.0, x, z, 2) == pytest.approx(g(0.0, x, z, 2))
    assert rg.grad(f)(0.0, x, z, 2) == pytest.approx(rg.grad(g)(0.0, x, z, 2))
    assert rg.hvp(f, ("x", "z"))((0.0, x, z, 2), [1.0, 0.5]) == pytest.approx(
        rg.hvp(g, ("x", "z"))((0.0, x, z, 2), [1.0, 0.5])
    )
    assert rg.jvp(f, (0.0, x, z, 2), {"x": 1.0})[1] == pytest.approx(rg.jvp(g, (0.0, x, z, 2), {"x": 1.0})[1])


@LEVELS
def test_the_laws(level):
    f = composed.with_options(level=level)
    check_inverse(f, 0.0, 1.5, 0.5, 2)
    check_gradient(f, 0.0, 1.5, 0.5, 2)
    with pytest.raises(Exception, match="the gradient of `f` by `x` is 18"):
        check_gradient(three.with_options(level=level), 0.0, 3.0)


def test_every_engine_and_batches_run_it():
    args = 0.0, 1.5, 0.5, 2
    expected = rg.grad(composed)(*args)
    for engine in ("reference", "threaded", "translated", "native"):
        assert rg.grad(three, "x", engine=engine)(0.0, 3.0) == 18.0
        assert rg.grad(composed, engine=engine)(*args) == expected
    xs = np.linspace(-2, 2, 9)
    batch = rg.vmap(rg.grad(composed, "x"), in_axes=(None, 0, None, None))(0.0, xs, 0.5, 2)
    assert batch.tolist() == [rg.grad(composed, "x")(0.0, x, 0.5, 2) for x in xs]


def test_a_derivative_where_the_automatic_one_is_zero():
    """A straight-through estimator: an int carries no cotangent, the adjoint does."""

    @reversible
    def rounded(y: fixed, x: fixed):
        y += round(x)

    @rounded.adjoint
    def _(y: fixed, x: fixed, d_y: fixed, d_x: fixed):
        d_x += d_y

    @reversible
    def loss(out: fixed, x: fixed):
        out += (rounded(x) - 3) ** 2

    assert rg.grad(loss)(0.0, 1.3).x == -4.0
    assert rg.grad(rounded)(0.0, 1.3).x == 1.0


@reversible
def scaled(xs: Array[fixed, "n"], ys: Array[fixed, "n"]):
    for i in range(len(xs)):
        xs[i] += ys[i] * 2


@scaled.adjoint
def _(xs: Array[fixed, "n"], ys: Array[fixed, "n"], d_xs: Array[fixed, "n"], d_ys: Array[fixed, "n"]):
    for i in range(len(xs)):
        d_ys[i] += d_xs[i] * 20


@reversible
def called(out: fixed, xs: Array[fixed, "n"], ys: Array[fixed, "n"]):
    scaled(xs, ys)
    out += rg.sum(xs)


@reversible
def uncalled(out: fixed, xs: Array[fixed, "n"], ys: Array[fixed, "n"]):
    ~scaled(xs, ys)
    out += rg.sum(xs)


@reversible
def on_a_copy(out: fixed, xs: Array[fixed, "n"], ys: Array[fixed, "n"]):
    with rg.routine() as r:
        t = rg.copy(xs)
        scaled(t[::-1], ys)
    out += rg.sum(t)
    ~r


@reversible
def recursive(out: fixed, xs: Array[fixed, "n"], ys: Array[fixed, "n"], n: int = 1):
    if n > 0:
        recursive(out, xs, ys, n - 1)
        t = rg.copy(xs)
        scaled(t, ys)
        out += rg.sum(t)
        ~scaled(t, ys)


@LEVELS
@pytest.mark.parametrize(("f", "slope"), [(called, 20.0), (uncalled, -20.0), (on_a_copy, 20.0), (recursive, 20.0)])
def test_arrays(f, slope, level):
    own, args = f.with_options(level=level), (0.0, [1.0, 2.0], [3.0, 4.0])
    assert [g.tolist() for g in rg.grad(own, ("xs", "ys"))(*args)] == [[1.0, 1.0], [slope, slope]]
    assert rg.jacobian(own, "ys")(*args).tolist() == [slope, slope]
    within = rg.reversible_gradient(own, ("xs", "ys"))
    zeros = [0.0, 0.0], [0.0, 0.0]
    done = within(*args, d_xs=zeros[0], d_ys=zeros[1])
    assert (done.d_xs.tolist(), done.d_ys.tolist()) == ([1.0, 1.0], [slope, slope])
    check_inverse(within, *args, d_xs=zeros[0], d_ys=zeros[1])


@reversible
def turned(x: fixed, y: fixed, a: fixed):
    rg.rot(x, y, a)


@turned.adjoint
def _(x: fixed, y: fixed, a: fixed, d_x: fixed, d_y: fixed, d_a: fixed):
    rg.irot(d_x, d_y, a)
    d_a += d_y * x
    d_a -= d_x * y


@LEVELS
def test_functions_that_change_several_arguments(level):
    @reversible(level=level)
    def f(x: fixed, y: fixed, a: fixed, b: fixed):
        turned(x, y, a)
        ~turned(y, x, b)
        for _ in range(3):
            turned(x, y, b)

    check_gradient(f, 1.0, 2.0, 0.5, 0.25)
    check_gradient(turned, 1.0, 2.0, 0.5)


@LEVELS
def test_structs_and_lognums(level):
    @reversible
    def product(z: Complex, a: Complex, b: Complex):
        z.add_product(a, b)

    @product.adjoint
    def _(z: Complex, a: Complex, b: Complex, d_z: Complex, d_a: Complex, d_b: Complex):
        d_a.add_conjugate_product(b, d_z)
        d_b.add_conjugate_product(a, d_z)

    @reversible(level=level)
    def f(out: fixed, a: Complex, b: Complex):
        with rg.routine() as r:
            z = Complex(0.0, 0.0)
            product(z, a, b)
        out += z.re * z.im
        ~r

    check_gradient(f, 0.0, 1 + 2j, 3 - 1j)

    @reversible
    def times(z: lognum, x: lognum):
        z *= x * x

    @times.adjoint
    def _(z: lognum, x: lognum, d_z: fixed, d_x: fixed):
        d_x += 2 * d_z

    @reversible(level=level)
    def g(out: fixed, x: lognum):
        with rg.routine() as r:
            z = lognum(3.0)
            times(z, x)
        out += fixed(z)
        ~r

    check_gradient(g, 0.0, 1.25)


def test_differentiation_mode_of_the_machine_refuses_it():
    with pytest.raises(rg.NotDifferentiable, match="an adjoint of its own"):
        rg.gradient_report(composed)(0.0, 1.5, 0.5, 2)
    with pytest.raises(rg.NotDifferentiable, match="an adjoint of its own"):
        rg.error_bound(composed, 0.0, 1.5, 0.5, 2)


def test_the_adjoint_is_no_part_of_the_program_itself():
    assert set(one.program().labels) == {"f"}
