"""Calls in expressions: `y += f(x)` is f with a zero for its result, added, and undone."""

from __future__ import annotations

import math

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible

LEVELS = pytest.mark.parametrize("level", [0, 1])


@reversible
def hypot(r: fixed, x: fixed, y: fixed) -> None:
    r += rg.sqrt(x * x + y * y)


@reversible
def scaled(out: fixed, x: fixed, by: int = 2) -> None:
    """Not a sum: the result is exchanged with a variable on the way."""
    t = x * by
    out, t = t, out
    rg.free(t, 0)


@reversible
def fib(out: int, n: int) -> None:
    if n < 2:
        out += n
    else:
        out += fib(n - 1) + fib(n - 2)


@reversible
def odd(out: int, n: int) -> None:
    if n == 0:
        out += 7
    else:
        t = even(n - 1)
        out += t


@reversible
def even(out: int, n: int) -> None:
    if n > 0:
        out += odd(n - 1)


@reversible
def mixed(out: int, n: int) -> None:
    """Assumed to add only, until its last statement is seen."""
    if n > 0:
        out += mixed(n - 1) + 1
        out ^= 5


@reversible
def dot(s: fixed, xs: Array[fixed, "n"], ys: Array[fixed, "n"]) -> None:
    for i in range(len(xs)):
        s += xs[i] * ys[i]


@rg.struct
class Pair:
    re: fixed
    im: fixed

    @reversible
    def norm(self, out: fixed) -> None:
        out += rg.sqrt(self.re * self.re + self.im * self.im)


@reversible
def product(z: Pair, a: Pair, b: Pair) -> None:
    z.re += a.re * b.re - a.im * b.im
    z.im += a.re * b.im + a.im * b.re


@rg.functional
def cubed(x: fixed) -> fixed:
    return x * x * x


@reversible
def factor(z: lognum, x: fixed) -> None:
    z *= lognum(x)


@reversible
def positive(b: bool, x: fixed) -> None:
    b ^= x > 0


@LEVELS
def test_a_number(level: int) -> None:
    @reversible(level=level)
    def f(y: fixed, x: fixed) -> None:
        y -= 2 * hypot(x, 4.0) + hypot(y=x, x=4.0) ** 2
        t = hypot(4.0, x)
        y += t

    out = f(1.0, 3.0)
    assert out == (1.0 - 10 - 25 + 5, 3.0)
    assert (~f)(*out) == (1.0, 3.0)
    assert rg.grad(f, "x")(0.0, 3.0) == pytest.approx(-3 / 5 - 2 * 3, abs=1e-8)


@LEVELS
def test_results_that_are_no_sums_and_of_other_kinds(level: int) -> None:
    @reversible(level=level)
    def f(y: fixed, n: int, b: bool, z: lognum, x: fixed) -> None:
        y += scaled(x) - scaled(x, 3)
        n ^= fib(n=7)
        b ^= positive(x) and positive(x - 2)
        z *= factor(x) * factor(x)

    start = (0.5, 1, False, 2.0, 1.5)
    out = f(*start)
    assert tuple(out) == (0.5 - 1.5, 1 ^ 13, False, pytest.approx(4.5), 1.5)
    assert tuple((~f)(*out)) == start


@LEVELS
def test_conditions(level: int) -> None:
    @reversible(level=level)
    def first(n: int, limit: int) -> None:
        while (fib(n) < limit, n > 0):
            n += 1

    @reversible(level=level)
    def guarded(y: int, n: int) -> None:
        if fib(n) > 3 and fib(n + 1) < 20:
            y += fib(n)

    assert first(0, 100) == (12, 100)
    assert (~first)(12, 100) == (0, 100)
    assert [guarded(0, n).y for n in range(9)] == [0, 0, 0, 0, 0, 5, 8, 0, 0]


@LEVELS
def test_arrays_and_views(level: int) -> None:
    @reversible(level=level)
    def normalise(ys: Array[fixed, "n"], xs: Array[fixed, "n"]) -> None:
        ys += xs / rg.sqrt(dot(xs, xs))

    @reversible(level=level)
    def tail(xs: Array[fixed, "n"], i: int) -> None:
        xs[i] += dot(xs[1:], xs[:-1])

    out = normalise(np.zeros(2), [3.0, 4.0])
    assert out.ys == pytest.approx([0.6, 0.8], abs=1e-9)
    jacobian = rg.jacobian(normalise, "xs", "ys")(np.zeros(2), [3.0, 4.0])
    assert np.asarray(jacobian) == pytest.approx(np.array([[0.128, -0.096], [-0.096, 0.072]]), abs=1e-8)
    with pytest.raises(rg.RetrogradError) as refused:
        tail([1.0, 2.0, 3.0], 2)
    assert refused.value.code == "RG0805"


def test_methods_structs_and_functional_functions() -> None:
    @reversible
    def f(y: fixed, a: Pair, b: Pair) -> None:
        y += product(a, b).re * 100 + product(a, b).im
        y += a.norm()
        y -= cubed(a.re) + cubed(2)

    value = -5 * 100 + 10 + math.sqrt(5) - 1 - 8
    assert f(0.0, Pair(1.0, 2.0), Pair(3.0, 4.0)).y == pytest.approx(value, abs=1e-8)
    assert rg.grad(f, "a")(0.0, Pair(1.0, 2.0), Pair(3.0, 4.0)).re == pytest.approx(
        304 + 1 / math.sqrt(5) - 3, abs=1e-7
    )


def python_mixed(n: int) -> int:
    return 0 if n <= 0 else (python_mixed(n - 1) + 1) ^ 5


@LEVELS
def test_recursion(level: int) -> None:
    """A call within itself works on the result directly if the function turns out to add only."""
    for n in range(6):
        assert odd.with_options(level=level)(0, n).out == (7 if n % 2 == 0 else 0)
        assert mixed.with_options(level=level)(0, n).out == python_mixed(n)
        out = mixed.with_options(level=level)(9, n)
        assert (~mixed.with_options(level=level))(*out) == (9, n)
    assert fib(0, 10) == (55, 10)


def test_a_sum_is_made_in_place() -> None:
    """y += f(x) is the call f(y, x) where f only adds: as many steps, and each level of a recursion is executed once."""

    @reversible
    def by_value(y: fixed, x: fixed) -> None:
        y += hypot(x, x)
        y -= hypot(x, 1.0)

    @reversible
    def by_call(y: fixed, x: fixed) -> None:
        hypot(y, x, x)
        ~hypot(y, x, 1.0)

    assert rg.run(by_value, 0.0, 1.0).steps == rg.run(by_call, 0.0, 1.0).steps
    steps = [rg.run(fib, 0, n).steps for n in (6, 7, 8)]
    assert steps[2] - steps[1] < 2 * (steps[1] - steps[0])


def test_equal_calls_of_a_statement_are_one() -> None:
    @reversible
    def once(y: fixed, x: fixed) -> None:
        y += scaled(x) * x

    @reversible
    def twice(y: fixed, x: fixed) -> None:
        y += scaled(x) * scaled(x)

    assert rg.run(twice, 0.0, 1.0).steps == rg.run(once, 0.0, 1.0).steps
