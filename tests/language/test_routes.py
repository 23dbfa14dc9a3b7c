"""Gradients of random programs of the language by both routes: differentiation mode and the gradient program agree."""

from __future__ import annotations

import random
from collections import Counter
from types import ModuleType

import pytest
from retrograd.compiler.compiled import real_regions
from retrograd.compiler.derivatives import lifting
from retrograd.compiler.derivatives.accumulators import LinearUpdate, Shadows, cotangents
from retrograd.isa.entries import Opcode
from retrograd.isa.expr import Expr, const
from retrograd.isa.words import Format
from support.random_programs import checks, generate

#: programs in the default tier
QUICK = 20
#: programs in the full tier, in pieces that can run side by side
SLOW, SHARD = 1000, 100
#: words for cotangents that are kept
KEPT = 20_000


@pytest.fixture(autouse=True)
def numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random programs in which most variables are numbers with a derivative."""
    monkeypatch.setattr(generate, "_SCALARS", {"int": 1, "fixed": 8, "bool": 0.5, "lognum": 1})


def examine(seed: int, routes: ModuleType) -> str:
    """Both routes on random arguments: how it went. Every second program keeps cotangents that are freed, and is run back."""
    case = generate.generate(seed)
    rng = random.Random(case.seed)
    try:
        plain = case.compiled(1)
        regions = real_regions(plain.lowered)
        memory = checks.memory_of(plain, checks.arguments(case, rng))
        keep = KEPT if seed % 2 else 0
        went: str = routes.compare(plain.module, regions, memory, keep=keep, seed=seed, steps=checks.STEPS)
    except Exception as error:
        error.add_note(f"program: generate({seed}), {case.format}\n\n{case.source}")
        raise
    finally:
        case.release()
    return went


def examine_all(seeds: range, routes: ModuleType) -> Counter[str]:
    went: Counter[str] = Counter()
    failures: list[Exception] = []
    for seed in seeds:
        try:
            went[examine(seed, routes)] += 1
        except Exception as error:
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(seeds)} programs", failures)
    return went


@pytest.mark.parametrize("first", range(0, QUICK, 10), ids=lambda first: f"seeds{first}to{first + 9}")
def test_both_routes_give_the_same_cotangents(first: int, routes: ModuleType) -> None:
    went = examine_all(range(first, first + 10), routes)
    # Runs that say little are few.
    assert went["ended"] >= 4, went


@pytest.mark.long
@pytest.mark.parametrize(
    "first", range(QUICK, QUICK + SLOW, SHARD), ids=lambda first: f"seeds{first}to{first + SHARD - 1}"
)
def test_both_routes_give_the_same_cotangents_of_more(first: int, routes: ModuleType) -> None:
    went = examine_all(range(first, first + SHARD), routes)
    assert went["ended"] >= SHARD * 0.6, went


# ---------------------------------------------------------------- control: the comparison can fail


def one_ulp_off(opcode: Opcode, w: Format) -> Shadows:
    """The steps, but that what an operand of a product, a quotient or a sine gains is one last place too large."""
    found = cotangents(opcode, w)
    if opcode.entry.name not in ("fmul", "fdiv", "fsin", "fcos"):
        return found

    def off(tree: Expr) -> Expr:
        return tree + const(1)

    steps = tuple(
        LinearUpdate(s.place, s.operator, off(s.value), s.sources) for s in found.steps if isinstance(s, LinearUpdate)
    )
    return Shadows(steps, found.after)


def test_a_last_place_too_many_is_found(routes: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifting, "cotangents", one_ulp_off)
    failures: list[BaseException] = []
    for seed in range(QUICK):
        try:
            examine(seed, routes)
        except AssertionError as error:
            failures.append(error)
        if len(failures) == 2:
            break
    assert len(failures) == 2
    assert all("cotangent by the program" in str(error) for error in failures)
