"""Products of matrices, row by row: words, gradients and traps of the order of the definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.frontends.python import updates

import retrograd as rg
from retrograd import Array, Reversible, fixed, reversible

#: an element of the last axis less, and more, than are needed
NARROW, WIDE = updates._FEW - 1, updates._FEW + 3


def matrices(w: str) -> Reversible:
    @reversible(format=w, precision="ignore")
    def product(c: Array[fixed, "n", "m"], a: Array[fixed, "n", "k"], b: Array[fixed, "k", "m"]) -> None:
        c += a @ b

    return product


def difference(w: str) -> Reversible:
    @reversible(format=w, precision="ignore")
    def product(c: Array[fixed, "n", "m"], a: Array[fixed, "n", "k"], b: Array[fixed, "k", "m"]) -> None:
        c -= (a * 2) @ b

    return product


def row(w: str) -> Reversible:
    @reversible(format=w, precision="ignore")
    def product(c: Array[fixed, "m"], a: Array[fixed, "k"], b: Array[fixed, "k", "m"]) -> None:
        c += a @ b

    return product


def new(w: str) -> Reversible:
    @reversible(format=w, precision="ignore")
    def product(c: Array[fixed, "m"], a: Array[fixed, "k"], b: Array[fixed, "k", "m"]) -> None:
        t = a @ b
        c += t * t

    return product


def columns(w: str) -> Reversible:
    @reversible(format=w, precision="ignore")
    def product(c: Array[fixed, "m"], a: Array[fixed, "k"], b: Array[fixed, "k", "m"]) -> None:
        c += rg.sum(b, axis=0)

    return product


FUNCTIONS = [matrices, difference, row, new, columns]


def numbers(make: Callable[[str], Reversible], rng: np.random.Generator, k: int, m: int, size: float) -> list[Any]:
    n = 3
    shapes = [(n, m), (n, k), (k, m)] if make in (matrices, difference) else [(m,), (k,), (k, m)]
    return [rng.uniform(-size, size, shape) for shape in shapes]


def outcome(run: Callable[..., Any], given: list[Any]) -> Any:
    """The words, or the code of the trap."""
    try:
        found = run(*given)
    except rg.ProgramTrap as trap:
        return trap.diagnostics[0].code
    return [np.asarray(x).tolist() for x in (found if isinstance(found, tuple) else (found,))]


def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops in the order of the definition."""
    monkeypatch.setattr(updates, "_FEW", 1 << 40)


@pytest.mark.parametrize("w", ["Q32.32", "Q16.16", "Q8.8", "Q4.4"])
@pytest.mark.parametrize("make", FUNCTIONS)
def test_words_and_traps_are_those_of_the_definition(
    make: Callable[[str], Reversible], w: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(len(w) + len(make.__name__))
    half = 2.0 ** (int(w[1:].split(".", maxsplit=1)[0]) - 1)
    cases = [numbers(make, rng, k, WIDE, size) for k in (1, 7) for size in (half**0.15, half**0.5, half * 0.9)]
    reordered = [outcome(make(w), given) for given in cases]
    in_order(monkeypatch)
    assert reordered == [outcome(make(w), given) for given in cases]
    assert any(isinstance(found, str) for found in reordered)
    assert any(isinstance(found, list) for found in reordered)


@pytest.mark.parametrize("make", FUNCTIONS)
def test_gradients_are_those_of_the_definition(
    make: Callable[[str], Reversible], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = numbers(make, np.random.default_rng(5), 5, WIDE, 2.0)

    def gradient() -> Any:
        _, pullback = rg.vjp(make("Q16.16"), *given)
        found = pullback({"c": np.arange(given[0].size).reshape(given[0].shape) * 0.25})
        return [np.asarray(x).tolist() for x in found]

    reordered = gradient()
    in_order(monkeypatch)
    assert reordered == gradient()


@pytest.mark.parametrize("make", FUNCTIONS)
def test_the_sum_goes_through_rows(make: Callable[[str], Reversible], monkeypatch: pytest.MonkeyPatch) -> None:
    """Long rows are taken as a whole, and short ones element by element."""
    programs = {}
    for m in (NARROW, WIDE):
        given = numbers(make, np.random.default_rng(1), 4, m, 0.5)
        programs[m] = [make("Q32.32").compiled(*given).program.code]
    in_order(monkeypatch)
    for m in (NARROW, WIDE):
        given = numbers(make, np.random.default_rng(1), 4, m, 0.5)
        programs[m].append(make("Q32.32").compiled(*given).program.code)
    assert programs[NARROW][0] == programs[NARROW][1]
    assert programs[WIDE][0] != programs[WIDE][1]


@reversible
def transposed(c: Array[fixed, "n", "n"], a: Array[fixed, "n", "n"]) -> None:
    c += a @ a.T


def test_rows_of_both_factors_stay_sums_in_a_register(monkeypatch: pytest.MonkeyPatch) -> None:
    given = np.zeros((20, 20)), np.eye(20)
    found = transposed.compiled(*given).program.code
    in_order(monkeypatch)
    assert found == reversible(transposed.fn).compiled(*given).program.code


@pytest.mark.parametrize("gaps", [False, True])
def test_cotangents_of_whole_arrays(gaps: bool) -> None:
    """They are loaded in blocks, between words that are zero."""
    given = numbers(matrices, np.random.default_rng(9), 5, WIDE, 2.0)
    _, a, b = given
    seed = np.random.default_rng(10).integers(-8, 9, given[0].shape) * 0.25
    if gaps:
        seed[::2, 1::3] = seed[0, 0] = seed[-1, -1] = 0.0
    for engine in ("reference", "translated"):
        found = rg.vjp(matrices("Q32.32"), *given, engine=engine)[1]({"c": seed})
        assert np.allclose(found.a, seed @ b.T, rtol=0, atol=1e-7)
        assert np.allclose(found.b, a.T @ seed, rtol=0, atol=1e-7)
        assert np.array_equal(found.c, seed)
