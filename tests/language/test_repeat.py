"""Loops with the body before the test: `for _ in rg.repeat(start, until=done)`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.testing import check_gradient, check_inverse, fixed_numbers


@reversible
def digits(n: int, x: int, s: Array[int, 20]):
    """The digits of x, the last first; x = 0 has one."""
    for _ in rg.repeat(n == 0, until=x == 0):
        q = x // 10
        s[n] += x - 10 * q
        x -= s[n] + 9 * q
        rg.free(q, x)
        n += 1


@reversible
def sums(y: fixed, n: int, x: fixed, limit: int):
    """Both conditions need temporaries, and there is a loop inside."""
    for _ in rg.repeat(until=n * n >= limit, start=n + n == 0):
        for k in range(n):
            y += x * k
        y += rg.sin(x) * n
        n += 1


@reversible
def nested(y: int, a: int, b: int, n: int, m: int):
    """b goes from 0 to m in each pass of a."""
    for _ in rg.repeat(a == 0, until=a >= n):
        for _ in rg.repeat(b == 0, b >= m):
            b += 1
            y += a * 10 + b
        b -= max(m, 1)
        a += 1


@given(st.integers(0, 10**12))
def test_the_body_runs_once_at_least(x: int) -> None:
    text = str(x)[::-1]
    found = digits(0, x, [0] * 20)
    assert (found.n, found.x) == (len(text), 0)
    assert found.s[: len(text)].tolist() == [int(d) for d in text]
    assert (~digits)(*found)[:2] == (0, x)
    check_inverse(digits, 0, x, [0] * 20)


def expected(x: float, limit: int) -> tuple[float, int]:
    y, n = 0.0, 0
    while True:
        y += sum(x * k for k in range(n)) + np.sin(x) * n
        n += 1
        if n * n >= limit:
            return y, n


@given(fixed_numbers(low=-2, high=2), st.integers(-3, 40))
def test_conditions_with_temporaries(x: float, limit: int) -> None:
    found = rg.run(sums, 0.0, 0, x, limit)
    y, n = expected(x, limit)
    assert found.values.n == n
    assert found.values.y == pytest.approx(y, abs=1e-6)
    assert found.erased_bits == 0
    check_inverse(sums, 0.0, 0, x, limit)
    check_gradient(sums, 0.0, 0, x, limit, argnums="x")


@given(st.integers(-1, 4), st.integers(-1, 4))
def test_a_loop_in_a_loop(n: int, m: int) -> None:
    y = sum(a * 10 + b for a in range(max(n, 1)) for b in range(1, max(m, 1) + 1))
    assert nested(0, 0, 0, n, m) == (y, max(n, 1), 0, n, m)
    check_inverse(nested, 0, 0, 0, n, m)


@pytest.mark.parametrize("engine", ["reference", "threaded", "native"])
def test_engines_agree(engine: str) -> None:
    args: tuple[Any, ...] = (0.0, 0, 0.7, 30)
    assert rg.run(sums, *args, engine=engine).values == sums(*args)
    assert rg.grad(sums, "x", engine=engine)(*args) == rg.grad(sums, "x")(*args)
    batch = rg.run_batch(sums, 0.0, 0, 0.7, np.array([1, 9, 30]), in_axes=(None, None, None, 0), engine=engine)
    assert batch.values.n.tolist() == [1, 3, 6]


@pytest.mark.parametrize("level", [0, 1])
def test_levels_of_optimisation_agree(level: int) -> None:
    f = sums.with_options(level=level)
    assert f(0.0, 0, 0.7, 30) == sums(0.0, 0, 0.7, 30)
    assert rg.hessian(f, "x")(0.0, 0, 0.7, 30) == rg.hessian(sums, "x")(0.0, 0, 0.7, 30)
    assert rg.jvp(f, (0.0, 0, 0.7, 30), {"x": 1.0})[1].y == rg.grad(sums, "x")(0.0, 0, 0.7, 30)


def test_contradictions_trap() -> None:
    with pytest.raises(rg.ProgramTrap, match="`n == 0` is false, and must be true before the first pass"):
        digits(3, 12, [0] * 20)
    with pytest.raises(rg.ProgramTrap, match="`x == 0` must be true after the last pass"):
        (~digits)(2, 12, [0] * 20)

    @reversible
    def back_at_the_start(n: int, y: int):
        for _ in rg.repeat(n == 0, until=y == 5):
            n += 1
            y += 1
            n ^= 1

    with pytest.raises(
        rg.ProgramTrap, match="`n == 0` is true, and must be true before the first pass and false before each other"
    ):
        back_at_the_start(0, 0)
