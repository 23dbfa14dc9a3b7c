"""Dense algebra, and a batch of a small program: in words of 64 bits, and of 32 bits (`-narrow`)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from retrograd.benchmarks import ours
from retrograd.benchmarks.workload import Golden, Polynomial, Problem, Product, Regression, Sizes, Task, Workload

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.runtime._reversible import Reversible

#: suffix of a workload's name -> format
FORMATS = {"": "Q32.32", "-narrow": "Q16.16"}
#: quick and full: rows of the matrices; rows and columns of the regression; elements of the batch
MATRICES, DATA, ELEMENTS = (32, 128), ((500, 20), (20_000, 20)), (5_000, 2_000_000)


@reversible(precision="ignore")
def product(c: Array[fixed, "n", "m"], a: Array[fixed, "n", "k"], b: Array[fixed, "k", "m"]) -> None:
    """C += A B. Inverse: −=."""
    c += a @ b


@reversible(precision="ignore")
def weighted(out: fixed, a: Array[fixed, "n", "k"], b: Array[fixed, "k", "m"], w: Array[fixed, "n", "m"]) -> None:
    """out += Σᵢⱼ wᵢⱼ (A B)ᵢⱼ, whose gradient by A is W Bᵀ. Inverse: −=."""
    c = a @ b
    out += rg.sum(c * w)


@reversible(precision="ignore")
def regression(out: fixed, w: Array[fixed, "k"], x: Array[fixed, "n", "k"], y: Array[fixed, "n"]) -> None:
    """out += Σᵢ (xᵢ·w − yᵢ)² / n. Inverse: −=."""
    for i in range(len(y)):
        with rg.routine() as r:
            e = x[i] @ w - y[i]
        out += e * e / len(y)
        ~r


@reversible(precision="ignore")
def polynomial(y: fixed, x: fixed, a: fixed, b: fixed, c: fixed, d: fixed) -> None:
    """y += a + b x + c x² + d x³. Inverse: −=."""
    y += a + x * (b + x * (c + x * d))


def _made(f: Reversible, suffix: str) -> Any:
    return f.with_options(format=FORMATS[suffix])


def _unit(suffix: str) -> float:
    return 2.0 ** -rg.Format.named(FORMATS[suffix]).frac


def _matrices(sizes: Sizes, suffix: str) -> Sequence[Problem]:
    n = MATRICES[not sizes.quick]
    a, b, w = (np.random.default_rng(6).uniform(-1, 1, (3, n, n)) * [[[1]], [[1]], [[1 / n]]]).round(4)
    d, unit = Product(a, b, w), _unit(suffix)
    f, g = _made(product, suffix), _made(weighted, suffix)
    value = ours.Call(f, (np.zeros((1, n, n)), a, b), ours.only("c", f))
    slope = ours.Call(g, (0.0, a[None], b, w), ours.only("a", g))
    return [
        Problem(
            f"{n} × {n}, {FORMATS[suffix]}; each is a multiplication and an addition", n**3,
            (
                Task("value", d, a @ b, n * unit, lambda: ours.value(value, "c"), absolute=True),
                Task("gradient", d, w @ b.T, n * unit, lambda: ours.gradient(slope, ["a"])),
            ),
        )
    ]  # fmt: skip


def _regressions(sizes: Sizes, suffix: str) -> Sequence[Problem]:
    n, k = DATA[not sizes.quick]
    rng = np.random.default_rng(7)
    x, w = rng.uniform(-1, 1, (n, k)), rng.uniform(-1, 1, k)
    d, f = Regression(w / 2, x, x @ w), _made(regression, suffix)
    call = ours.Call(f, (0.0, d.w[None], d.x, d.y), ours.only("w", f))
    task = Task("gradient", d, d.gradient(), 64 * _unit(suffix), lambda: ours.gradient(call, ["w"]))
    return [Problem(f"{n} × {k}, {FORMATS[suffix]}; each is a number of x", n * k, (task,))]


def _polynomials(sizes: Sizes, suffix: str) -> Sequence[Problem]:
    n = ELEMENTS[not sizes.quick]
    d, f = Polynomial(np.random.default_rng(8).uniform(-1, 1, n), (0.5, 0.25, 0.125, 0.0625)), _made(polynomial, suffix)
    axes = ours.only("x", f) | {"y": 0}
    call = ours.Call(f, (np.zeros(n), d.x, *d.coefficients), axes)
    task = Task("value", d, d.value, 8 * _unit(suffix), lambda: ours.value(call, "y"), absolute=True)
    return [Problem(f"{n} elements, {FORMATS[suffix]}", n, (task,))]


def _none() -> Sequence[Golden]:
    return ()


_EYE = np.eye(3)
_POINT: tuple[Any, ...] = (0.0, 1.0, 0.5, 0.25, 0.125, 0.0625)
_LINE: tuple[Any, ...] = (0.0, np.ones(2), np.eye(4, 2), np.zeros(4))


def _workloads(suffix: str) -> tuple[Workload, ...]:
    named = f", {FORMATS[suffix]}"
    problems = {make: functools.partial(make, suffix=suffix) for make in (_matrices, _regressions, _polynomials)}
    return (
        Workload(
            f"matmul{suffix}", f"product of matrices{named}", _none,
            lambda: (_made(product, suffix), (np.zeros((3, 3)), _EYE, _EYE)), problems[_matrices],
        ),
        Workload(
            f"regression{suffix}", f"linear regression{named}", _none,
            lambda: (_made(regression, suffix), _LINE), problems[_regressions],
        ),
        Workload(
            f"polynomial{suffix}", f"batch of cubic polynomials{named}", _none,
            lambda: (_made(polynomial, suffix), _POINT), problems[_polynomials],
        ),
    )  # fmt: skip


ALL = tuple(workload for suffix in FORMATS for workload in _workloads(suffix))
