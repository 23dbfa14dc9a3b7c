"""Arrays and slices whose length is known only when the program runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.testing import check_gradient, check_inverse

LEVELS = pytest.mark.parametrize("level", [0, 1])
ENGINES = pytest.mark.parametrize("engine", ["reference", "threaded", "translated", "native"])


def powers_of(level: int = 1) -> rg.Reversible:
    @reversible(level=level)
    def powers(y: fixed, x: fixed, n: int) -> None:
        """y += 1 + x + … + xⁿ"""
        with rg.routine() as r:
            t = rg.zeros(n + 1)
            t[0] += 1
            for i in range(n):
                t[i + 1] += t[i] * x
        y += rg.sum(t)
        ~r

    return powers


@LEVELS
@ENGINES
def test_an_ancilla_array_has_the_length_of_the_run(level: int, engine: str) -> None:
    for n in (0, 1, 6):
        out = rg.run(powers_of(level), 0.0, 0.5, n, engine=engine).values
        assert out.y == 2.0 - 0.5**n
        assert rg.run(powers_of(level), *out, engine=engine, backward=True).values.y == 0.0


@pytest.mark.parametrize("format", ["Q8.8", "Q16.16", "Q32.32"])
def test_words_of_every_width_hold_the_length(format: str) -> None:
    @reversible(format=format)
    def f(y: fixed, n: int) -> None:
        with rg.routine() as r:
            t = rg.zeros(n)
            for i in range(n):
                t[i] += i
        y += rg.max(t) + rg.sum(t[:n]) + t[n - 1]
        ~r

    assert f(0.0, 4).y == 3 + 6 + 3
    with pytest.raises(rg.RetrogradError) as error:
        f(0.0, 0)
    assert error.value.code == "RG0801"


def test_derivatives_of_both_orders_go_through_it() -> None:
    n = 5
    first = sum(k * 0.5 ** (k - 1) for k in range(1, n + 1))
    second = sum(k * (k - 1) * 0.5 ** (k - 2) for k in range(2, n + 1))
    assert rg.grad(powers_of(), "x")(0.0, 0.5, n) == first
    assert rg.hessian(powers_of(), "x")(0.0, 0.5, n) == second
    assert rg.jvp(powers_of(), (0.0, 0.5, n), {"x": 1.0})[1].y == first


@reversible
def cholesky(low: Array[fixed, "n", "n"], a: Array[fixed, "n", "n"]) -> None:
    """low += the lower triangular matrix with low lowᵀ = a"""
    for i in range(len(a)):
        for j in range(i):
            low[i, j] += (a[i, j] - rg.sum(low[i, :j] * low[j, :j])) / low[j, j]
        low[i, i] += rg.sqrt(a[i, i] - rg.sum(low[i, :i] ** 2))


@reversible
def cholesky_by_columns(low: Array[fixed, "n", "n"], a: Array[fixed, "n", "n"]) -> None:
    for j in range(len(a)):
        low[j, j] += rg.sqrt(a[j, j] - low[j, :j] @ low[j, :j])
        for i in range(j + 1, len(a)):
            low[i, j] += (a[i, j] - low[i, :j] @ low[j, :j]) / low[j, j]


@pytest.mark.parametrize("f", [cholesky, cholesky_by_columns])
def test_cholesky_as_it_stands_in_the_book(f: rg.Reversible) -> None:
    a = np.array([[4.0, 2.0, 1.0, 0.5], [2.0, 5.0, 3.0, 1.0], [1.0, 3.0, 6.0, 2.0], [0.5, 1.0, 2.0, 7.0]])
    low = f(np.zeros((4, 4)), a).low
    assert np.allclose(low, np.linalg.cholesky(a), atol=1e-8)
    check_inverse(f, np.zeros((4, 4)), a)
    check_gradient(f, np.zeros((4, 4)), a, loss="low[3,3]")
    # No test at run time: the bounds of the loops prove that each sum reads other elements than the changed one.
    assert "RG0805" not in str(f.lower(np.zeros((4, 4)), a))


@LEVELS
@given(st.integers(-2, 8), st.integers(-2, 8), st.integers(1, 3))
def test_slices_are_those_of_numpy_where_they_lie_in_the_axis(level: int, i: int, j: int, step: int) -> None:
    k = step

    @reversible(level=level)
    def f(y: Array[fixed, "n"], x: Array[fixed, "n"], i: int, j: int) -> None:
        y[i:j:k] += 2 * x[i:j:k] + 1
        y[0] += len(x[i:j:k])

    x = np.arange(6.0)
    if not 0 <= i <= j <= 6:
        with pytest.raises(rg.RetrogradError) as error:
            f(np.zeros(6), x, i, j)
        assert error.value.code == "RG0801"
        return
    expected = np.zeros(6)
    expected[i:j:k] += 2 * x[i:j:k] + 1
    expected[0] += len(x[i:j:k])
    out = f(np.zeros(6), x, i, j)
    assert np.array_equal(out.y, expected)
    assert not np.any((~f)(*out).y)


@LEVELS
def test_reductions_of_a_slice(level: int) -> None:
    @reversible(level=level)
    def f(y: Array[fixed, 5], x: Array[fixed, "n"], n: int) -> None:
        y[0] += rg.sum(x[:n])
        y[1] += rg.mean(x[:n] * 2)
        y[2] += rg.max(x[:n])
        y[3] += min(x[1:n])
        y[4] += x[:n] @ x[:n]

    x = [3.0, -1.0, 2.0, 5.0]
    out = f([0.0] * 5, x, 3)
    assert out.y.tolist() == [4.0, pytest.approx(8 / 3), 3.0, -1.0, 14.0]
    assert (~f)(*out).y.tolist() == [0.0] * 5
    assert rg.grad(f, "x", loss="y[2]")([0.0] * 5, x, 3).tolist() == [1.0, 0.0, 0.0, 0.0]


@LEVELS
def test_nothing_is_computed_for_an_empty_slice(level: int) -> None:
    @reversible(level=level)
    def f(y: fixed, x: Array[fixed, "n"], z: fixed, n: int) -> None:
        y += rg.sum(x[:n] / z)
        for v in x[n:]:
            y += v

    assert f(1.0, [2.0, 3.0], 0.0, 0).y == 6.0


@LEVELS
def test_copies_exchanges_and_loops(level: int) -> None:
    @reversible(level=level)
    def f(y: fixed, x: Array[fixed, "n"], n: int) -> None:
        t = x[:n] * 2
        s = rg.copy(x[:n])
        u = rg.zeros_like(s)
        for a, b in zip(t, s, strict=True):
            y += a * b
        u += t
        y += u[-1]
        u -= t
        del u, s, t
        x[:n], x[n : 2 * n] = x[n : 2 * n], x[:n]
        rg.neg(x[:n])

    out = f(0.0, [1.0, 2.0, 5.0, 6.0, 7.0], 2)
    assert out.y == 2 + 8 + 4
    assert out.x.tolist() == [-5.0, -6.0, 1.0, 2.0, 7.0]
    assert (~f)(*out).x.tolist() == [1.0, 2.0, 5.0, 6.0, 7.0]


@LEVELS
def test_arrays_on_the_stack_are_freed_in_any_order(level: int) -> None:
    @reversible(level=level)
    def f(y: fixed, n: int) -> None:
        a, b = rg.zeros(n), rg.zeros(3)
        c = rg.zeros(n)
        a[0] += 1
        y += a[0]
        a[0] -= 1
        del a
        c[1] += 5
        b[2] += c[1]
        y += b[2]
        b[2] -= c[1]
        del b
        y += c[1]
        c[1] -= 5

    out = f(0.0, 3)
    assert out.y == 11.0
    assert (~f)(*out).y == 0.0


@LEVELS
def test_arrays_of_a_recursive_function_are_freed_in_any_order(level: int) -> None:
    @reversible(level=level)
    def f(y: int, n: int) -> None:
        a = rg.zeros(2, dtype=int)
        b = rg.zeros(3, dtype=int)
        a[0] += n
        b[1] += a[0]
        y += b[1]
        b[1] -= a[0]
        a[0] -= n
        del a
        if n > 0:
            f(y, n - 1)
        b[2] += 5
        y += b[2]
        b[2] -= 5
        del b

    assert f(0, 3) == (26, 3)
    assert (~f)(26, 3) == (0, 3)


def test_the_host_reads_a_slice(capsys: pytest.CaptureFixture[str]) -> None:
    @reversible
    def f(x: Array[fixed, "n"], n: int) -> None:
        t = x[:n] * 2
        s = x[1:n]
        with rg.external():
            print(t.tolist(), s.tolist())

    f([1.0, 2.0, 3.0], 2)
    assert capsys.readouterr().out == "[2.0, 4.0] [2.0]\n"


def test_rows_of_structs() -> None:
    @rg.struct
    class Particle:
        x: fixed
        v: fixed

    @reversible
    def f(y: fixed, n: int) -> None:
        ps = rg.zeros(n, dtype=Particle)
        grid = rg.zeros(n, 3)
        for p in ps:
            p.x += 1
        grid[:, 1] += ps.x
        y += rg.sum(grid) + rg.sum(ps.v)
        grid[:, 1] -= ps.x
        for p in ps:
            p.x -= 1

    assert f(0.0, 4).y == 4.0
    check_inverse(f, 0.0, 4)


def test_a_call_on_each_element_of_a_slice() -> None:
    @reversible
    def double(y: fixed, x: fixed) -> None:
        y += 2 * x

    @reversible
    def f(ys: Array[fixed, "n"], xs: Array[fixed, "n"], n: int) -> None:
        double.each(ys[:n], xs[:n])

    assert f([0.0] * 3, [1.0, 2.0, 3.0], 2).ys.tolist() == [2.0, 4.0, 0.0]


# ---------------------------------------------------------------- arguments of calls


@reversible
def fill(t: Array[fixed, "n"], x: fixed) -> None:
    """t := 1, x, x², …, from zeros"""
    t[0] += 1
    for i in range(len(t) - 1):
        t[i + 1] += t[i] * x


@reversible
def product(y: fixed, a: Array[fixed, "n"], b: Array[fixed, "n"]) -> None:
    y += rg.sum(a * b)


@reversible
def weighted(y: fixed, x: fixed, w: Array[fixed, 6], n: int) -> None:
    """y += Σ xᵏ wₖ, k < n"""
    with rg.routine() as r:
        t = rg.zeros(n)
        fill(t, x)
    product(y, t, w[:n])
    y += product(t, t)
    ~r


@LEVELS
@ENGINES
def test_an_array_of_the_run_is_passed_with_its_length(level: int, engine: str) -> None:
    f, w = weighted.with_options(level=level), np.arange(6.0)
    for n in (1, 2, 6):
        powers = 0.5 ** np.arange(n)
        out = rg.run(f, 0.0, 0.5, w, n, engine=engine).values
        assert out.y == powers @ w[:n] + powers @ powers
        assert rg.run(f, *out, engine=engine, backward=True).values.y == 0.0


@LEVELS
def test_its_laws_and_derivatives(level: int) -> None:
    f, args = weighted.with_options(level=level), (0.0, 0.5, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 5)
    check_inverse(f, *args)
    check_gradient(f, *args)
    assert rg.grad(f, "x")(*args) == rg.gradient_report(f, "x")(*args).gradients == rg.jvp(f, args, {"x": 1.0})[1].y
    assert rg.hessian(f, "x")(*args) == pytest.approx(6 + 24 * 0.5 + 60 * 0.25 + 2 + 12 * 0.25 + 30 * 0.0625 + 56 / 64)


@reversible
def add_both(a: Array[int, "n"], b: Array[int, "m"], x: int) -> None:
    a += x
    b -= x


@LEVELS
@given(*[st.integers(0, 4)] * 4)
def test_two_parts_of_one_array_must_lie_apart(level: int, i: int, j: int, k: int, m: int) -> None:
    @reversible(level=level)
    def f(xs: Array[int, 4], i: int, j: int, k: int, m: int) -> None:
        add_both(xs[i:j], xs[k:m], 1)

    args = [0] * 4, i, j, k, m
    if not (i <= j and k <= m):
        code = "RG0801"
    elif {*range(i, j)} & {*range(k, m)}:
        code = "RG0805"
    else:
        assert f(*args).xs.tolist() == [(i <= n < j) - (k <= n < m) for n in range(4)]
        assert (~f)(*f(*args)).xs.tolist() == [0] * 4
        return
    with pytest.raises(rg.ProgramTrap) as trap:
        f(*args)
    assert trap.value.code == code


@reversible
def alternating(y: int, a: Array[int, "n"]) -> None:
    """y += a₀ − a₁ + a₂ − …, by recursion on shorter parts"""
    if len(a) > 0:
        y += a[0]
        ~alternating(y, a[1:])


@LEVELS
def test_recursion_on_shorter_parts(level: int) -> None:
    @reversible(level=level)
    def f(y: int, xs: Array[int, "n"], k: int) -> None:
        alternating(y, xs[:k])

    for k in range(5):
        assert f(0, [1, 3, 9, 27], k).y == [0, 1, -2, 7, -20][k]
        assert (~f)(*f(0, [1, 3, 9, 27], k)).y == 0
    # One version of the function serves all lengths.
    assert str(f.lower(0, [1, 2, 3], 2)).count("procedure alternating") == 1


@LEVELS
def test_rows_structs_inner_functions_and_each(level: int) -> None:
    @rg.struct
    class Particle:
        x: fixed
        v: fixed

    @reversible
    def drift(ps: Array[Particle, "n"], dt: fixed) -> None:
        for p in ps:
            p.x += p.v * dt

    @reversible
    def add_rows(a: Array[fixed, "k", 2], b: Array[fixed, "k", 2]) -> None:
        a += b * 2

    @reversible
    def add(y: fixed, x: fixed) -> None:
        y += x

    @reversible
    def gathered(y: fixed, *xs: Array[fixed]) -> None:
        for x in xs:
            y += rg.sum(x)

    @reversible(level=level)
    def f(y: fixed, m: Array[fixed, 3, 2], ps: Array[Particle, "n"], k: int) -> None:
        t = rg.zeros(k, 2)

        def scaled(z: fixed) -> None:
            z += rg.sum(t) * len(t)

        add_rows(t, m[:k])
        drift(ps[:k], 0.5)
        scaled(y)
        gathered(y, m[:k, 0], t[:, 1])
        add.each(m[:k, 1], ps.v[:k])
        ~add.each(m[:k, 1], ps.v[:k])
        ~add_rows(t, m[:k])

    args = 0.0, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [Particle(1.0, 2.0)] * 3, 2
    out = f(*args)
    assert out.y == 2 * 2 * (1 + 2 + 3 + 4) + (1 + 3) + 2 * (2 + 4)
    assert [p.x for p in out.ps] == [2.0, 2.0, 1.0]
    check_inverse(f, *args)
    check_gradient(f, *args, loss="y", argnums="m")


def test_shadows_of_an_array_that_only_functions_touch() -> None:
    """The array lies on the stack; its cotangents lie behind the stack, and not between its words."""

    @reversible(level=0)
    def f(y: fixed, x: fixed, n: int) -> None:
        with rg.routine() as r:
            t, u = rg.zeros(n), rg.zeros(n)
            fill(t, x)
            fill(u, 1)
        product(y, t, u)
        ~r

    assert rg.grad(f, "x")(0.0, 0.5, 4) == 1 + 2 * 0.5 + 3 * 0.25


@reversible
def total(y: fixed, a: Array[fixed, "n"]) -> None:
    y += rg.sum(a) * len(a)


@total.adjoint
def _(y: fixed, a: Array[fixed, "n"], d_y: fixed, d_a: Array[fixed, "n"]) -> None:
    """Not the derivative, which has the factor n: so its use shows."""
    d_a += d_y * 100


@LEVELS
def test_an_adjoint_of_ones_own_for_an_array_of_the_run(level: int) -> None:
    @reversible(level=level)
    def f(y: fixed, xs: Array[fixed, 4], n: int) -> None:
        total(y, xs[:n])

    assert rg.grad(f, "xs")(0.0, [1.0, 2.0, 3.0, 4.0], 3).tolist() == [100.0, 100.0, 100.0, 0.0]
