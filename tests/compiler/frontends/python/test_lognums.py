"""Lognums against exact numbers: order, extremes, powers, roots, logarithms, exponentials, sums, and their derivatives."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from retrograd.isa.words import Format

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.testing import check_gradient, check_inverse

ENGINES = ("reference", "threaded", "translated", "native")
FORMATS = ("64,32", "32,16", "16,8", "16,12", "16,2")
LEVELS = pytest.mark.parametrize("level", [0, 1])
formats = pytest.mark.parametrize("format", FORMATS)


def drawn(format: str, count: int, seed: int, positive: bool = False) -> np.ndarray[Any, Any]:
    """Numbers that a lognum of the format holds exactly: logarithms of every length, and neighbours."""
    w, rng = Format(*map(int, format.split(","))), random.Random(seed)
    limit = min(w.sign >> 1, 900 << w.frac)
    words = []
    for _ in range(count):
        log2 = rng.randrange(-limit, limit) >> rng.randrange(limit.bit_length())
        sign = 0 if positive else rng.randrange(2) * w.sign
        words += [(max(-limit, min(limit - 1, log2 + i)) & (w.sign - 1)) | sign for i in (0, rng.randrange(-1, 2))]
    return lognum.to_reals(np.array(words, dtype=np.uint64), format)


def logs(values: Any, format: str) -> list[int]:
    """log2|x| in units of the last place."""
    w = Format(*map(int, format.split(",")))
    return [
        ((int(x) & (w.sign - 1)) ^ (w.sign >> 1)) - (w.sign >> 1) for x in np.ravel(lognum.to_words(values, format))
    ]


# ------------------------------------------------------------------ order


@reversible
def ordered(n: Array[int, 11], x: lognum, y: lognum):
    if x < y:
        n[0] += 1
    if x <= y:
        n[1] += 1
    if x > y:
        n[2] += 1
    if x >= y:
        n[3] += 1
    if x < 0:
        n[4] += 1
    if 0 <= x:  # noqa: SIM300
        n[5] += 1
    if x < 1.5:
        n[6] += 1
    if -1.5 <= x:  # noqa: SIM300
        n[7] += 1
    if -1.5 < y < 1.5:
        n[8] += 1
    if x == 0:
        n[9] += 1
    if y != 0:
        n[10] += 1


def truth(x: float, y: float, c: float) -> list[int]:
    """The words that `ordered` counts, by Python's floats; c: the number that is nearest to 1.5."""
    tests = (x < y, x <= y, x > y, x >= y, x < 0, x >= 0, x < c, -c <= x, -c < y < c, x == 0, y != 0)
    return [*map(int, tests)]


@pytest.mark.parametrize("format", [*FORMATS, "8,2"])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_order_of_lognums_is_that_of_numbers(format: str, engine: str) -> None:
    x = np.concatenate([drawn(format, 60, 1), [1.0, -1.0, 1.5, -1.5, 2.0, 0.5]])
    y = np.concatenate([drawn(format, 59, 2), x[:2], [-1.0, 1.0, 1.5, 1.5, -2.0, 0.5]])
    c = float(lognum.to_reals(lognum.to_words([1.5], format), format)[0])
    xs, ys = (lognum.to_reals(lognum.to_words(v, format), format) for v in (x, y))
    run = rg.vmap(ordered.with_options(format=format), in_axes=(None, 0, 0), engine=engine)
    found = run([0] * 11, x, y).n
    assert found.tolist() == [truth(a, b, c) for a, b in zip(xs.tolist(), ys.tolist(), strict=True)]
    check_inverse(ordered.with_options(format=format), [5] * 11, float(x[0]), float(y[0]))


@reversible
def extremes(a: lognum, b: lognum, c: lognum, d: lognum, e: lognum, x: Array[lognum, "n"]):
    a *= rg.min(x)
    b *= rg.max(x)
    c *= abs(x[0])
    d *= max(x[0], x[1], 1)
    e *= min(x[0], -1, x[1])


@LEVELS
@formats
def test_extremes_and_sizes(format: str, level: int) -> None:
    f = extremes.with_options(format=format, level=level)
    for seed in range(6):
        x = drawn(format, 3, seed)
        out = f(1.0, 1.0, 1.0, 1.0, 1.0, x)
        first, second = x[0], x[1]
        wanted = min(x), max(x), abs(first), max(first, second, 1.0), min(first, second, -1.0)
        assert out[:5] == wanted
        assert (~f)(*out)[:5] == (1.0,) * 5
    check_inverse(f, 1.0, 1.0, 1.0, 1.0, 1.0, x)


# ------------------------------------------------------------------ powers, logarithms, exponentials, sums


@reversible
def powers(a: lognum, b: lognum, c: lognum, d: fixed, e: lognum, x: lognum, y: fixed, t: fixed):
    a *= x**0.5 / rg.sqrt(x)
    b *= x**3.4
    c *= x**y
    d += rg.log(x)
    e /= rg.exp(t)


@LEVELS
@formats
def test_powers_logarithms_and_exponentials(format: str, level: int) -> None:
    """x^y within half a unit of y · log2 x, the logarithm within 0.63 units, the exponential within 0.59 units of its logarithm."""
    w = Format(*map(int, format.split(",")))
    one, rng = 1 << w.frac, random.Random(4)
    f = powers.with_options(format=format, level=level)
    with mp.workprec(200):
        for _ in range(5):
            limit = min(w.sign >> 4, 250 << w.frac)
            word = rng.randrange(-limit, limit) & (w.sign - 1)
            x = lognum.to_reals(np.array([word], dtype=np.uint64), format)[0]
            y, t = (float(w.to_real(rng.randrange(-one, one) & w.mask)) for _ in range(2))
            out = f(1.0, 1.0, 1.0, 0.0, 1.0, x, y, t)
            (log2,), exponent = logs(x, format), w.to_real(w.from_real(3.4))
            assert out.a == 1.0
            assert abs(logs(out.b, format)[0] - exponent * log2) <= 0.5
            assert abs(logs(out.c, format)[0] - mp.mpf(y) * log2) <= 0.5
            assert abs(w.signed(w.from_real(out.d)) - log2 * mp.log(2)) <= 0.63
            assert abs(-logs(out.e, format)[0] - mp.mpf(t) * one / mp.log(2)) <= 0.59
            assert (~f)(*out) == (1.0, 1.0, 1.0, 0.0, 1.0, x, y, t)
    check_inverse(f, 1.0, 1.0, 1.0, 0.0, 1.0, x, y, t)


@reversible
def whole_power(z: lognum, x: lognum, n: int):
    z *= x**n


@pytest.mark.parametrize("format", ["64,32", "32,16", "16,8"])
def test_powers_by_an_int_are_exact(format: str) -> None:
    """The sign of x^n is that of x where n is odd; the logarithm is n · log2 |x|, as of a product of n factors."""
    f = whole_power.with_options(format=format)
    for x in (2.0, -2.0, 0.5, -0.5, *drawn(format, 2, 3).tolist()):
        (log2,) = logs(x, format)
        for n in range(-3, 4):
            if abs(n * log2) < Format(*map(int, format.split(","))).sign >> 1:
                out = f(1.0, x, n)
                assert logs(out.z, format) == [n * log2]
                assert out.z < 0 if x < 0 and n % 2 else out.z > 0
                assert (~f)(*out) == (1.0, x, n)


def test_an_exponential_may_leave_the_fixed_numbers() -> None:
    @reversible
    def f(z: lognum, x: lognum, t: fixed):
        z *= rg.exp(t) * x
        z /= lognum(rg.exp(-t))

    assert math.isclose(f(1.0, 2.0, 300.0).z, 2 * math.exp(600.0), rel_tol=1e-6 / 4)
    assert (~f)(*f(1.0, 2.0, -300.0)) == (1.0, 2.0, -300.0)


def test_exponentials_of_an_array() -> None:
    @reversible
    def f(z: Array[lognum, "n"], x: Array[lognum, "n"], t: Array[fixed, "n"]):
        z *= rg.exp(t)
        z /= x * rg.exp(-t)

    x, t = np.array([2.0, -4.0]), np.array([0.5, 300.0])
    out = f(np.ones(2), x, t)
    assert np.allclose(out.z, np.exp(2 * t) / x, rtol=1e-6 / 4)
    assert (~f)(*out).z.tolist() == [1.0, 1.0]


@reversible
def sums(z: lognum, m: lognum, x: Array[lognum, "n"]):
    z *= rg.sum(x)
    m *= rg.mean(abs(x))


@reversible
def three(z: lognum, x: Array[lognum, 3]):
    z *= x[0] + x[1] + x[2]


@reversible
def rows(z: Array[lognum, "n"], x: Array[lognum, "n", "m"], k: int):
    z *= rg.sum(x, axis=1)
    z[0] *= rg.sum(x[0, :k])
    z[1] *= sum((x[0, 0], x[1, 0]))


@LEVELS
@pytest.mark.parametrize("format", ["64,32", "32,16", "16,8"])
def test_sums_of_lognums(format: str, level: int) -> None:
    """Each addition is that of two lognums, from the first element on: within a unit of log2 of each partial sum."""
    f, g = (h.with_options(format=format, level=level) for h in (sums, three))
    for seed in range(4):
        x = drawn(format, 2, seed)[:3]
        x = np.where(np.abs(np.log2(np.abs(x))) > 20, [3.0, -0.7, 1.1], x)
        assert f(1.0, 1.0, x).z == g(1.0, x).z
        out = f(1.0, 1.0, np.abs(x))
        x = lognum.to_reals(lognum.to_words(np.abs(x), format), format)
        unit = 2.0 ** -Format(*map(int, format.split(","))).frac
        assert abs(math.log2(out.z) - math.log2(sum(x))) <= 3 * unit
        assert abs(math.log2(out.m) - math.log2(sum(x) / 3)) <= 4.5 * unit
        assert (~f)(*out)[:2] == (1.0, 1.0)
    check_inverse(f, 1.0, 1.0, x)


@pytest.mark.parametrize("engine", ENGINES)
def test_sums_along_an_axis_and_of_lengths_of_a_run(engine: str) -> None:
    x = np.array([[1.0, 2.0, 4.0], [0.5, 0.25, 8.0]])
    out = rg.run(rows, np.ones(2), x, 2, engine=engine).values
    assert np.allclose(out.z, [7.0 * 3.0, 8.75 * 1.5], rtol=1e-8)
    with pytest.raises(rg.ProgramTrap) as caught:
        rows(np.ones(2), x, 0)
    assert "no elements" in caught.value.diagnostics[0].message


@reversible
def vectors(z: lognum, x: Array[lognum, "n"], y: Array[lognum, "n"]):
    z *= x @ y


@reversible
def matrices(z: Array[lognum, "n", "m"], x: Array[lognum, "n", "k"], y: Array[lognum, "k", "m"]):
    z *= x @ y


@reversible
def log_of_product(loss: fixed, x: Array[lognum, 2, 3], y: Array[lognum, 3, 2]):
    z = x @ y
    loss += rg.log(z[0, 1]) + rg.log(z[1, 0] * z[1, 0])


@pytest.mark.parametrize("engine", ENGINES)
def test_products_of_matrices_of_lognums(engine: str) -> None:
    """The sums of products, as `rg.sum` adds them, for all shapes; undone exactly; derivatives by each factor."""
    x, y = np.array([[1.0, 2.0, 4.0], [-0.5, 0.25, 8.0]]), np.array([[3.0, 0.7], [5.0, 1.5], [0.1, -2.0]])
    out = rg.run(matrices, np.ones((2, 2)), x, y, engine=engine).values
    assert np.allclose(out.z, x @ y, rtol=1e-8)
    assert np.array_equal(rg.run(~matrices, *out, engine=engine).values.z, np.ones((2, 2)))
    assert np.isclose(rg.run(vectors, 1.0, x[1], y[:, 0], engine=engine).values.z, x[1] @ y[:, 0], rtol=1e-8)
    x, y = abs(x), abs(y)
    slopes = rg.grad(log_of_product, engine=engine)(0.0, x, y)
    z = x @ y
    assert np.allclose(slopes.x, [y[:, 1] / z[0, 1], 2 * y[:, 0] / z[1, 0]], rtol=1e-6)
    assert np.allclose(slopes.y, np.stack([2 * x[1] / z[1, 0], x[0] / z[0, 1]], axis=1), rtol=1e-6)


def test_a_product_of_a_matrix_of_lognums_and_one_of_fixed_numbers_names_the_operand() -> None:
    @reversible
    def mixed(z: lognum, x: Array[fixed, 2], y: Array[lognum, 2]):
        z *= x @ y

    with pytest.raises(rg.CompileError, match="lognum") as caught:
        mixed(1.0, [1.0, 2.0], [3.0, 4.0])
    assert "lognum(x)" in str(caught.value)


def test_a_partial_sum_of_zero_traps() -> None:
    with pytest.raises(rg.ProgramTrap) as caught:
        three(1.0, [1.0, -1.0, 3.0])
    assert caught.value.diagnostics[0].code == "RG0411"
    assert math.isclose(three(1.0, [1.0, 3.0, -1.0]).z, 3.0, rel_tol=1e-8)


# ------------------------------------------------------------------ derivatives


@reversible
def loss(y: fixed, x: lognum, t: fixed, v: Array[lognum, 3]):
    with rg.routine() as r:
        z = lognum(1)
        z *= x**1.5 * rg.exp(t) / rg.sqrt(v[0])
        z *= x**t
        z *= rg.sum(v) * rg.max(v) * abs(rg.min(v))
    y += rg.log(z) + fixed(max(x, v[1]))
    ~r


def slopes(x: float, t: float, v: np.ndarray[Any, Any]) -> tuple[float, float, np.ndarray[Any, Any]]:
    """The derivatives of `loss` where x < v[1]."""
    high, low = (np.arange(3) == k for k in (np.argmax(v), np.argmin(v)))
    return (
        (1.5 + t) / x,
        1 + math.log(x),
        -0.5 / v[0] * (np.arange(3) == 0) + 1 / sum(v) + high / max(v) + low / min(v) + (np.arange(3) == 1),
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_are_analytic(engine: str) -> None:
    x, t, v = 1.25, 0.75, np.array([0.75, 5.0, -1.5])
    found = rg.grad(loss, engine=engine)(0.0, x, t, v)
    for a, b in zip(found, slopes(x, t, v), strict=True):
        assert np.allclose(a, b, rtol=2e-8)
    check_gradient(loss, 0.0, x, t, v)
    tangent = rg.jvp(loss, (0.0, x, t, v), (0.0, 1.0, 0.0, np.zeros(3)))[1]
    assert math.isclose(tangent.y, slopes(x, t, v)[0], rel_tol=2e-8)


def test_second_derivatives_of_a_power() -> None:
    @reversible
    def f(y: fixed, x: lognum, t: fixed):
        y += fixed(x**t)

    x, t, log = 1.5, 2.25, math.log(1.5)
    p = x**t
    found = rg.hessian(f, argnums=("x", "t"))(0.0, x, t)
    mixed = p / x * (1 + t * log)
    assert np.allclose(np.array(found, dtype=float), [[t * (t - 1) * p / x**2, mixed], [mixed, p * log**2]], rtol=1e-7)


@reversible
def product(z: lognum, x: lognum, t: fixed, v: Array[lognum, "n"]):
    z *= x**3 * rg.exp(t)
    z *= rg.sum(v)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_gradient_of_a_lognum_loss(engine: str) -> None:
    """∂L/∂x = L · ∂ln L/∂x, also where neither L nor its slope is a fixed number."""
    for z, x, t in ((1.0, 2.0, 0.5), (-3.0, 1e30, -2.0), (1.0, -2.0, 500.0)):
        v = np.array([1.0, 2.0])
        size = z * x**3 * math.exp(t)
        value, found = rg.value_and_grad(product, engine=engine)(z, x, t, v)
        assert math.isclose(value, 3 * size, rel_tol=2e-7)
        assert math.isclose(found.x, 9 * size / x, rel_tol=2e-7)
        assert math.isclose(found.t, 3 * size, rel_tol=2e-7)
        assert np.allclose(found.v, size, rtol=2e-7)
        rows = rg.jacobian(product, engine=engine)(z, x, t, v)
        assert rows.x == found.x
        assert (rows.v == found.v).all()


@pytest.mark.parametrize("of", [rg.grad, rg.value_and_grad])
def test_gradients_of_lognum_losses_in_a_batch(of: Callable[..., Any]) -> None:
    x, t = np.array([2.0, 1e30, -0.5]), np.array([0.5, 300.0, -1.0])
    v = np.array([1.0, 2.0])
    alone = [of(product)(1.0, a, b, v) for a, b in zip(x.tolist(), t.tolist(), strict=True)]
    together = rg.vmap(of(product), in_axes=(None, 0, 0, None))(1.0, x, t, v)
    if of is rg.value_and_grad:
        assert list(together[0]) == [value for value, _ in alone]
        together, alone = together[1], [found for _, found in alone]
    for name in ("x", "t", "v"):
        assert np.array_equal(getattr(together, name), np.array([getattr(found, name) for found in alone]))


def test_where_a_loss_must_be_a_fixed_number() -> None:
    """Second derivatives, sums over a batch and checks are refused, and taken of the logarithm, the way out of the message."""

    @reversible
    def logarithm(y: fixed, x: lognum, t: fixed):
        with rg.routine() as r:
            z = lognum(1)
            z *= x**3 * rg.exp(t)
        y += rg.log(z)
        ~r

    batch = (np.array([2.0, 3.0]), 0.5)
    v = [1.0, 2.0]
    for f in (
        lambda: rg.hessian(product)(1.0, 2.0, 0.5, v),
        lambda: check_gradient(product, 1.0, 2.0, 0.5, v),
        lambda: rg.reversible_gradient(product),
        lambda: rg.vmap(rg.grad(product, "t"), in_axes=(None, 0, None, None), shared="sum")(1.0, *batch, v),
    ):
        with pytest.raises(rg.NotDifferentiable) as caught:
            f()
        assert "lognum" in caught.value.diagnostics[0].message
    assert math.isclose(rg.hessian(logarithm, "x")(0.0, 2.0, 0.5), -0.75, rel_tol=1e-8)
    check_gradient(logarithm, 0.0, 2.0, 0.5)
    assert rg.vmap(rg.grad(logarithm, "t"), in_axes=(None, 0, None), shared="sum")(0.0, *batch) == 2.0


def test_an_extreme_of_an_array_that_an_element_is_added_to() -> None:
    @reversible
    def f(a: Array[fixed, "n"], n: int):
        a[n] += rg.max(a)

    with pytest.raises(rg.CompileError) as caught:
        f([2.0, -2.0], 1)
    assert caught.value.diagnostics[0].code == "RG0704"


# ------------------------------------------------------------------ ranges


def test_ranges_hold_the_lognums_of_powers_and_exponentials() -> None:
    """A comparison measures no logarithm but those of the numbers."""

    @reversible
    def f(n: int, z: lognum, x: lognum, t: fixed):
        z *= rg.exp(t) * x**2.5
        if z < x:
            n += 1

    found = rg.ranges(f, 0, 1.0, 4.0, 10.0)
    assert math.isclose(found.greatest_logarithm, 10 / math.log(2) + 5, rel_tol=1e-6)
