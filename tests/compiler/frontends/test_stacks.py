"""Stacks as values: their length, truth, words, and variables that are popped."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd import fixed, lognum, reversible

LEVELS = pytest.mark.parametrize("level", [0, 1])


@LEVELS
def test_length_truth_and_words(level: int) -> None:
    @reversible(level=level)
    def f(y: int, s: rg.Stack[int, 5], i: int) -> None:
        y += len(s) * 1000
        if s and i < len(s):
            y += rg.top(s) * 100 + s[0] * 10 + s[-2] + s[i]

    assert f(0, [], 0) == (0, [], 0)
    assert f(0, [5, 6, 7], 1) == (3000 + 700 + 50 + 6 + 6, [5, 6, 7], 1)
    assert f(0, [5, 6], 2) == (2000, [5, 6], 2)
    assert (~f)(3762, [5, 6, 7], 1) == (0, [5, 6, 7], 1)


@LEVELS
def test_words_change_in_place(level: int) -> None:
    @reversible(level=level)
    def f(s: rg.Stack[fixed, 4], k: int) -> None:
        s[0] += 1.5
        s[-1] -= s[0]
        s[k], s[0] = s[0], s[k]
        rg.neg(s[k])

    out = f([1.0, 2.0, 4.0], 1)
    assert out == ([2.0, -2.5, 1.5], 1)
    assert (~f)(*out) == ([1.0, 2.0, 4.0], 1)


def test_derivatives_go_through_the_words() -> None:
    @reversible
    def f(y: fixed, a: fixed, b: fixed) -> None:
        with rg.routine() as r:
            s = rg.stack(fixed, 3)
            rg.push(s, a)
            rg.push(s, b)
        y += s[0] * rg.top(s)
        ~r

    assert tuple(rg.grad(f)(0.0, 2.0, 5.0)) == (5.0, 2.0)


@LEVELS
def test_a_new_variable_takes_the_top(level: int) -> None:
    @reversible(level=level)
    def moved(total: int, s: rg.Stack[int, 5], t: rg.Stack[int, 5]) -> None:
        while (s, t):
            x = rg.pop(s)
            total += x
            rg.push(t, x)

    @reversible(level=level)
    def kept(s: rg.Stack[lognum, 3], z: lognum) -> None:
        x = rg.pop(s)
        z *= x
        rg.push(s, x)

    out = moved(0, [1, 2, 3], [])
    assert out == (6, [], [3, 2, 1])
    assert (~moved)(*out) == (0, [1, 2, 3], [])
    assert kept([2.0, 4.0], 3.0) == ([2.0, 4.0], pytest.approx(12.0))


@pytest.mark.parametrize(("words", "index"), [([1, 2], 2), ([1, 2], -1), ([], 0), ([1, 2, 3], 3), ([1, 2, 3], 1 << 40)])
def test_a_word_that_is_not_there(words: list[int], index: int) -> None:
    @reversible
    def f(y: int, s: rg.Stack[int, 3], i: int) -> None:
        y += s[i]

    with pytest.raises(rg.RetrogradError) as trapped:
        f(0, words, index)
    assert trapped.value.code == "RG0801"


@pytest.mark.parametrize("name", ["top", "last", "changed"])
def test_an_empty_stack(name: str) -> None:
    @reversible
    def top(y: int, s: rg.Stack[int, 3]) -> None:
        y += rg.top(s)

    @reversible
    def last(y: int, s: rg.Stack[int, 3]) -> None:
        y += s[-1]

    @reversible
    def changed(y: int, s: rg.Stack[int, 3]) -> None:
        s[-1] += y

    f = {"top": top, "last": last, "changed": changed}[name]
    with pytest.raises(rg.RetrogradError) as trapped:
        f(0, [])
    assert trapped.value.code == "RG0801"


def test_a_popped_variable_has_to_go_back() -> None:
    @reversible
    def f(y: int, s: rg.Stack[int, 3]) -> None:
        x = rg.pop(s)
        y += x

    with pytest.raises(rg.RetrogradError) as trapped:
        f(0, [7])
    assert trapped.value.code == "RG0802"
