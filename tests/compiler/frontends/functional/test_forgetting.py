"""`with rg.forget():`: the words and instructions of a chain of n calls, and values, derivatives and lists that pass such a block."""

from __future__ import annotations

import math

import pytest
from retrograd.examples.functional.forgetting import in_parts, in_parts_of_parts, kept, main, schemes

import retrograd as rg
from retrograd import fixed


def expected(x: float, n: int) -> tuple[float, float]:
    """(value, derivative)"""
    v, d = x, 1.0
    for _ in range(n):
        v, d = math.sin(v) + x, math.cos(v) * d + 1
    return v, d


def test_values_and_derivatives() -> None:
    for f, args, n in ((kept, (64,), 64), (in_parts, (64, 8), 64), (in_parts_of_parts, (3,), 64)):
        value, derivative = expected(0.3, n)
        there = rg.run(f, 0.3, *args)
        assert there.values.out == pytest.approx(value, abs=1e-6)
        assert there.erased_bits == 0
        assert rg.grad(f, "x")(0.3, *args) == pytest.approx(derivative, abs=1e-6)


@pytest.mark.parametrize("k", [2, 3, pytest.param(5, marks=pytest.mark.long)])
def test_words_and_steps_of_a_chain(k: int) -> None:
    """n calls: O(n) words and steps; O(√n) words at twice the steps; O(log n) words at n^1.5 steps. One word less is a trap."""
    n, root = 4**k, 2**k
    for f, args, heap, stack, steps in (
        (kept, (n,), n + 3, 0, 18 * n + 30),
        (in_parts, (n, root), 3 * root + 1, 0, 46 * n),
        (in_parts_of_parts, (k,), 0, 6 * k + 1, 71 * 8**k),
    ):
        assert rg.run(f.with_options(heap=heap, stack=stack), 0.3, *args).steps <= 1.21 * steps
        short = [({"heap": heap, "stack": stack - 1}, "RG0807")] * (stack > 0)
        short += [({"heap": heap - 1, "stack": stack}, "RG0811")] * (heap > 0)
        for options, code in short:
            with pytest.raises(rg.ProgramTrap) as caught:
                f.with_options(**options)(0.3, *args)
            assert caught.value.code == code


def test_the_table_has_the_words_that_runs_need(capsys: pytest.CaptureFixture[str]) -> None:
    """Words are those of the smallest heap and stack; √n and log n words, n^1.5 steps of the nested scheme."""
    assert [(t.words, t.steps) for t in schemes(2)] == [(19, 318), (13, 884), (13, 4492)]
    small, large = schemes(2), schemes(4)
    assert [t.words for t in large] == [256 + 3, 3 * 16 + 1, 6 * 4 + 1]
    assert large[2].steps / small[2].steps == pytest.approx(64, rel=0.02)
    main(16)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["16", "19", "318", "13", "884", "13", "4492"]


@rg.functional
def lists(x: fixed, n: int) -> tuple[fixed, fixed]:
    """A block that gives a number, a list, and a function that captures the list."""

    def halves(k, v):
        return [] if k == 0 else [v, *halves(k - 1, v * 0.5)]

    def mapped(f, items):
        match items:
            case []:
                return []
            case [a, *rest]:
                return [f(a), *mapped(f, rest)]

    def total(items):
        match items:
            case []:
                return 0.0
            case [a, *rest]:
                return a * a + total(rest)

    with rg.forget():
        ys = mapped(lambda v: v * x, mapped(lambda v: v + 1, halves(n, x)))
        f = lambda v: total(ys) * v
        two = 2 if x > 0 else 3
    return f(x) * two, total(ys)


def test_lists_and_functions_pass() -> None:
    total = sum(((1 + 0.5 * 0.5**i) * 0.5) ** 2 for i in range(5))
    there = rg.run(lists, 0.5, 5, engine="reference")
    assert (there.values.out_0, there.values.out_1) == pytest.approx((total, total), abs=1e-6)
    assert there.erased_bits == 0
    assert not any(there.machine.memory[there.compiled.argument_words :])
    assert (~lists)(*there.values) == (0.5, 5, 0.0, 0.0)


@rg.functional
def returns_on_one_path(x: fixed):
    with rg.forget():
        if x > 0:
            return x
    return -x


def test_refusals() -> None:
    with pytest.raises(rg.CompileError, match="returns on every path, or on none"):
        returns_on_one_path(1.0)
