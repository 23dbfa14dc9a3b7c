"""Inner functions and lambdas that use variables around them, and lists of functions, against the same programs in Python."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.testing import check_gradient, check_inverse

LEVELS = pytest.mark.parametrize("level", [0, 1])


@reversible
def once(y: fixed, x: fixed):
    y += x + 1


@reversible
def twice(y: fixed, x: fixed):
    y += 2 * x


@reversible
def integrate(s: fixed, f, a: fixed, b: fixed, n: int):
    with rg.routine() as r:
        h = (b - a) / n
    for i in range(n):
        s += f(a + (i + 0.5) * h) * h
    ~r


@reversible
def area(s: fixed, k: fixed, c: int, xs: Array[fixed, "n"]):
    integrate(s, lambda t: t * k + c * xs[1], 0.0, 1.0, 8)


@reversible
def lambdas(y: fixed, n: int, z: lognum, k: int, b: int, x: lognum):
    """The value of a lambda has the type of its expression."""
    f = lambda v: v * k  # noqa: E731
    above = lambda v: v > k  # noqa: E731
    n += f(k)
    y += f(0.5)
    if above(b):
        y += 1
    square = lambda v: v * x  # noqa: E731
    z *= square(x)


@reversible
def walk(y: fixed, x: fixed, n: int):
    """Inner functions that call themselves and each other, and change a variable around them."""

    def step(m: int):
        nonlocal y
        if m > 0:
            y += x * m
            step(m - 1)

    def two(k: int):
        step(k)
        step(n)

    two(n - 1)
    ~step(n)


@reversible
def rows(a: Array[fixed, "n", "m"], x: fixed):
    for i in range(len(a)):
        row = a[i]

        def add(j: int):
            row[j] += x * j * i  # noqa: B023

        for j in range(len(row)):
            add(j)


@reversible
def chosen(y: fixed, z: fixed, x: fixed, i: int):
    def shifted(out: fixed, u: fixed):
        out += u * x

    fs = [once, ~twice, shifted]
    fs[i](y, x)
    gs = [once, twice, shifted]
    z += gs[i](x) * 2


@reversible
def each_of(y: fixed, x: fixed, fs: rg.static):
    for f in fs:
        f(y, x)


@LEVELS
@pytest.mark.parametrize(
    ("f", "given", "expected"),
    [
        (area, (0.0, 3.0, 2, [1.0, 5.0]), {"s": 11.5}),
        (lambdas, (0.0, 0, 1.0, 3, 5, 2.0), {"y": 2.5, "n": 9, "z": 4.0}),
        (walk, (0.0, 2.0, 4), {"y": 12.0}),
        (rows, (np.zeros((2, 3)), 2.0), {"a": [[0, 0, 0], [0, 2, 4]]}),
        (chosen, (0.0, 0.0, 2.0, 0), {"y": 3.0, "z": 6.0}),
        (chosen, (0.0, 0.0, 2.0, 1), {"y": -4.0, "z": 8.0}),
        (chosen, (0.0, 0.0, 2.0, 2), {"y": 4.0, "z": 8.0}),
        (each_of, (0.0, 2.0, (once, ~twice, once)), {"y": 2.0}),
    ],
)
def test_values_and_inverses(f, given, expected, level):
    own = f.with_options(level=level)
    for engine in ("reference", "auto"):
        done = rg.run(own, *given, engine=engine)
        assert done.erased_bits == 0
        for name, value in expected.items():
            assert np.array_equal(getattr(done.values, name), value), name
    check_inverse(own, *given)


def test_gradients_reach_the_variables_that_a_lambda_uses():
    assert rg.grad(area, "k")(0.0, 3.0, 2, [1.0, 5.0]) == 0.5
    assert rg.grad(area, "xs")(0.0, 3.0, 2, [1.0, 5.0]).tolist() == [0, 2]
    check_gradient(area, 0.0, 3.0, 2, [1.0, 5.0])
    check_gradient(walk, 0.0, 2.0, 4)
    assert rg.grad(chosen, "x")(0.0, 0.0, 2.0, 1) == -2.0
    assert rg.grad(chosen, "x", loss="z")(0.0, 0.0, 2.0, 2) == 8.0
