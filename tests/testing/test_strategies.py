"""Random arguments, and all laws over them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from retrograd.compiler.frontends.python.function import struct
from retrograd.simulator.machine import Machine

import retrograd as rg
from retrograd import Array, Stack, fixed, lognum, reversible
from retrograd.library import Complex, dot, logsumexp
from retrograd.testing import LawBroken, arguments, check_laws, fixed_numbers, gradients, words

quick = settings(max_examples=20, database=None)
SMALL = rg.Format(16, 8)


@struct
class Body:
    at: Complex
    mass: lognum
    fixed_: bool


@reversible
def everything(
    y: fixed,
    a: Array[fixed, "n"],
    b: Array[fixed, "n", 2],
    c: Array[int, ...],
    bodies: Array[Body, 2],
    s: Stack[int, 9],
    z: Complex,
    k: int,
    flag: bool,
    m: lognum,
    times: rg.static = 3,
    extra=0.5,
):
    y += extra * times


@reversible
def root(y: fixed, x: fixed):
    y += rg.sqrt(x)


@reversible
def relu(y: fixed, x: fixed):
    y += rg.select(x > 0, x, 0)


@reversible
def at(y: fixed, xs: Array[fixed, "n"], k: int):
    y += xs[k]


@quick
@given(arguments(everything))
def test_arguments_fit_the_function(drawn: Any) -> None:
    y, a, b, c, bodies, s, z, k, flag, m, times, extra = drawn
    assert rg.run(everything, *drawn).values.y == pytest.approx(y + 1.5)
    assert b.shape == (*a.shape, 2)
    assert 1 <= len(c) <= 4
    assert c.dtype == np.int64
    assert bodies.shape == (2,)
    assert len(s) <= 9
    assert all(-8 <= v <= 8 for v in (y, *a, *b.ravel(), *c, *s, z.re, k))
    assert isinstance(flag, bool)
    assert 0 < abs(m) <= 8
    assert 0 < abs(bodies[0].mass) <= 8
    assert (times, extra) == (3, 0.5)


@quick
@given(arguments(everything, low=2, high=3, times=st.integers(4, 5), y=0.25))
def test_ranges_and_overrides(drawn: Any) -> None:
    assert drawn[0] == 0.25
    assert drawn[10] in (4, 5)
    assert drawn[7] in (2, 3)
    assert drawn[9] > 0


@quick
@given(fixed_numbers(), fixed_numbers(SMALL), fixed_numbers(SMALL, 0.3, 0.31), words(SMALL), words())
def test_numbers_are_exact(big: float, small: float, narrow: float, word: int, long: int) -> None:
    for value, format in ((big, rg.Format()), (small, SMALL), (narrow, SMALL)):
        assert format.to_real(format.from_real(value)) == value
    assert 0.3 <= narrow <= 0.31
    assert 0 <= word <= SMALL.mask
    assert 0 <= long < 2**64


def found(strategy: Any, wanted: Any) -> Any:
    """The first example that is wanted, not made simpler."""
    return find(
        strategy, wanted, settings=settings(max_examples=500, database=None, derandomize=True, phases=[Phase.generate])
    )


@pytest.mark.long
def test_all_of_a_range_is_drawn() -> None:
    assert found(fixed_numbers(SMALL), lambda x: x == -128.0) == -128
    assert found(fixed_numbers(low=-8, high=8), lambda x: x > 7 and x % 1 != 0) > 7
    assert found(words(), lambda w: w == 2**64 - 1) == 2**64 - 1
    assert found(arguments(root), lambda a: a[1] < 0)[1] < 0
    with pytest.raises(NoSuchExample):
        found(arguments(root, low=0), lambda a: a[1] < 0)


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(rg.InputError, match=r"Q8\.8 has no numbers from 0\.001 to 0\.002"):
        fixed_numbers(SMALL, 0.001, 0.002)


@pytest.mark.parametrize(
    ("overrides", "said"), [({}, "what `xs` of `f` may be is not said"), ({"zz": 1}, "no parameter `zz`")]
)
def test_what_cannot_be_drawn_is_refused(overrides: Any, said: str) -> None:
    @reversible
    def f(y: fixed, xs):
        y += xs[0]

    with pytest.raises(rg.InputError) as caught:
        arguments(f, **overrides)
    assert said in str(caught.value)


def test_without_hypothesis_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.setitem(sys.modules, "hypothesis.strategies", None)
    for use in (words, fixed_numbers, lambda: arguments(root), lambda: check_laws(root)):
        with pytest.raises(ImportError, match="pip install hypothesis"):
            use()  # type: ignore[operator]


# ---------------------------------------------------------------------- laws


def test_laws_hold() -> None:
    report = check_laws(dot, 15, loss=0)
    assert report.examples >= 10
    assert (report.trapped, report.undecided) == (0, 0)
    assert check_laws(~logsumexp, 10).trapped == 0


def test_arguments_without_a_value_have_to_run_back(monkeypatch: pytest.MonkeyPatch) -> None:
    report = check_laws(root, 30)
    assert 0 < report.trapped < report.examples

    run_back = Machine.run_back

    def faulty(machine: Machine, *args: Any, **keywords: Any) -> Any:
        outcome = run_back(machine, *args, **keywords)
        machine.memory[1] ^= 1
        return outcome

    monkeypatch.setattr(Machine, "run_back", faulty)
    with pytest.raises(LawBroken, match=r"stopped .* and ran back: `x` was"):
        check_laws(root, 30)


def test_kinks_are_counted_and_do_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    right = gradients.value_and_grad
    assert check_laws(relu, 20, loss=0, x=0.0).undecided == 0

    def half(*args: Any, **keywords: Any) -> Any:
        return lambda *values: (right(*args, **keywords)(*values)[0], (0.5,))

    monkeypatch.setattr(gradients, "value_and_grad", half)
    report = check_laws(relu, 20, loss=0, x=0.0)
    assert report.undecided == report.examples
    with pytest.raises(LawBroken, match="differences say"):
        check_laws(relu, 20, loss=0)


@pytest.mark.long
def test_other_traps_fail_unless_they_are_accepted() -> None:
    with pytest.raises(rg.ProgramTrap, match="RG0801"):
        check_laws(at, 40)
    assert check_laws(at, 40, accept={"RG0801"}).trapped > 0
    assert check_laws(at, 20, k=0).trapped == 0


def test_only_arguments_without_a_value_are_no_test() -> None:
    with pytest.raises(rg.InputError, match="no value for any of"):
        check_laws(root, 10, x=-1.0)


def test_an_inverse_has_no_gradient_to_check() -> None:
    with pytest.raises(rg.InputError, match="is an inverse"):
        check_laws(~dot, 5, loss=0)


def test_a_broken_law_is_reduced_to_a_simple_example(monkeypatch: pytest.MonkeyPatch) -> None:
    right = gradients.value_and_grad

    def wrong(*args: Any, **keywords: Any) -> Any:
        def both(*values: Any) -> Any:
            value, (g,) = right(*args, **keywords)(*values)
            return value, (g + (1.0 if values[1] > 3 else 0.0),)

        return both

    monkeypatch.setattr(gradients, "value_and_grad", wrong)
    with pytest.raises(LawBroken) as caught:
        check_laws(relu, 50, loss=0)
    assert "(0.0, 4.0)" in "".join(caught.value.__notes__)
