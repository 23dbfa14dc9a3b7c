"""Calls that are forgotten by name, and the choice of them for a number of words."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.core import Calls
from retrograd.compiler.frontends.python.captures import Captures

import retrograd as rg
from retrograd import fixed
from retrograd.physics.advice import measured


@rg.functional
def norm(items):
    match items:
        case []:
            return 0.0
        case [first, *rest]:
            return first * first + norm(rest)


@rg.functional(heap=1 << 14, stack=1 << 14)
def relaxed(x: fixed, steps: int, size: int):
    """Each step builds a list and gives a number. `outer` calls `step`, and `step` the other functions."""

    def column(v, k):
        return [] if k == 0 else [v, *column(0.5 * v + 0.1, k - 1)]

    def mapped(f, items):
        match items:
            case []:
                return []
            case [first, *rest]:
                return [f(first), *mapped(f, rest)]

    def step(v):
        return rg.sin(norm(mapped(lambda t: t * v, column(v, size)))) + x

    def outer(v, k):
        return v if k == 0 else outer(step(v), k - 1)

    return outer(x, steps)


NAMES = ("step", "norm", "mapped", "column", "outer")
ARGUMENTS = (0.25, 6, 4)


def run(names: Any) -> Any:
    f = relaxed.with_options(forget=names)
    return measured(f.compiled(*ARGUMENTS), [*ARGUMENTS, 0.0])


def test_the_calls_that_can_be_forgotten() -> None:
    """Not those inside a recursion, of which each level would be computed twice."""
    assert sorted(relaxed.forgettable()) == sorted(NAMES)
    code = Calls(lambda f: f.functional_core(Captures())).forgetting(relaxed, NAMES)
    forgotten = [e.value for e in core.walk(code) if isinstance(e, core.Forget)]
    called = [
        str(c.function.binding) for c in forgotten if isinstance(c, core.Apply) and isinstance(c.function, core.Ref)
    ]
    assert sorted(called) == ["column", "mapped", "outer", "step"]
    assert len(forgotten) == 5


@pytest.mark.parametrize("names", [(), "step", ("column", "mapped"), ("step", "norm"), NAMES])
def test_forgetting_changes_nothing_but_memory_and_time(names: Any) -> None:
    f = relaxed.with_options(forget=names)
    there = rg.run(f, *ARGUMENTS, engine="reference")
    plain = rg.run(relaxed, *ARGUMENTS)
    assert there.values == plain.values
    assert there.erased_bits == 0
    assert not any(there.machine.memory[there.compiled.argument_words :])
    assert (~f)(*there.values) == (*ARGUMENTS, 0.0)
    assert rg.grad(f, "x")(*ARGUMENTS) == pytest.approx(rg.grad(relaxed, "x")(*ARGUMENTS), abs=1e-6)


@pytest.mark.parametrize("names", [(), ("step",), ("column",)])
def test_measured_words_are_those_that_a_run_needs(names: tuple[str, ...]) -> None:
    """A heap and a stack of the measured words suffice. With less, the run traps."""
    found = run(names)
    assert found.steps == rg.run(relaxed.with_options(forget=names), *ARGUMENTS).steps
    exact = {"forget": names, "heap": found.heap, "stack": found.stack}
    assert rg.run(relaxed.with_options(**exact), *ARGUMENTS).erased_bits == 0
    for less, code in (("heap", "RG0811"), ("stack", "RG0807")):
        with pytest.raises(rg.ProgramTrap) as caught:
            rg.run(relaxed.with_options(**{**exact, less: exact[less] - 1}), *ARGUMENTS)  # type: ignore[operator]
        assert caught.value.code == code


def test_a_step_that_is_forgotten_leaves_one_word() -> None:
    """Words: O(steps · size) if all is kept, O(steps + size) if the step is forgotten, at less than twice the instructions."""

    def words(names: str, steps: int) -> tuple[int, int]:
        f = relaxed.with_options(forget=names) if names else relaxed
        found = measured(f.compiled(0.3, steps, 8), [0.3, steps, 8, 0.0])
        return found.words, found.steps

    kept, forgotten = ([words(names, n) for n in (4, 8, 16)] for names in ("", "step"))
    for found, per_step in ((kept, 70), (forgotten, 6)):
        (a, _), (b, _), (c, _) = found
        assert (c - b) == 2 * (b - a)
        assert (b - a) / 4 <= per_step
    assert (kept[1][0] - kept[0][0]) > 8 * (forgotten[1][0] - forgotten[0][0])
    assert all(t[1] <= 2.1 * s[1] for s, t in zip(kept, forgotten, strict=True))


@pytest.mark.long
def test_advice_is_the_fewest_instructions_within_the_budget() -> None:
    """As good as the best of all choices of one name, or of none."""
    single = [run(()), *(run((name,)) for name in NAMES)]
    for budget in (single[0].words, single[0].words - 1, single[1].words):
        advice = rg.advise(relaxed, *ARGUMENTS, memory=budget)
        fitting = [t.steps for t in single if t.words <= budget]
        assert advice.fits
        assert advice.chosen.steps == min(fitting)
        assert advice.advised(*ARGUMENTS) == relaxed(*ARGUMENTS)
        assert "chosen" in str(advice)
        assert advice.as_dict()["chosen"]["forget"] == sorted(advice.chosen.names)
    assert rg.advise(relaxed, *ARGUMENTS, memory=single[0].words).chosen.names == frozenset()
    assert rg.advise(relaxed, *ARGUMENTS, memory=single[0].words - 1).chosen.names


@pytest.mark.long
def test_a_budget_that_is_too_small_is_reported() -> None:
    advice = rg.advise(relaxed, *ARGUMENTS, memory=1)
    assert not advice.fits
    assert "no choice has fewer words" in str(advice)
    every = [run(names) for k in range(3) for names in itertools.combinations(NAMES, k)]
    assert advice.chosen.words <= min(t.words for t in every)


@rg.reversible
def plain(y: fixed, x: fixed):
    y += x


def test_refusals() -> None:
    with pytest.raises(rg.CompileError, match="forgets no call of `steps`"):
        relaxed.with_options(forget="steps")(*ARGUMENTS)
    with pytest.raises(rg.InputError, match="no functional function"):
        rg.advise(plain, 0.0, 1.0, memory=100)
    with pytest.raises(rg.InputError, match="memory"):
        rg.advise(relaxed, *ARGUMENTS, memory=-1)
