"""Stacks of stacks and arrays of stacks: random pushes and pops, forward and back, beside Python's lists."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest
from support.files import module_written

import retrograd as rg
from retrograd import Array, Stack, fixed, reversible

HEAD = """
import retrograd as rg
from retrograd import Array, Stack, reversible

Row = Stack[int, 3]
Rows = Stack[Row, 3]

@reversible
def f(s: Rows, d: Stack[Rows, 2], a: Array[Row, 3], t: Row, i: int, x: int):
"""
STACKS = ("t", "a[0]", "a[i]", "a[i + 1]")


class Halt(Exception):
    """A stack that is full or empty, or a place that is not."""


def push(s: list[Any], x: list[Any], room: int) -> None:
    if len(s) == room:
        raise Halt
    s.append(x[:])
    x.clear()


def pop(s: list[Any], x: list[Any]) -> None:
    if not s or x:
        raise Halt
    x[:] = s.pop()


def drawn(draw: random.Random) -> tuple[list[str], list[str]]:
    """(statements of the language, the same of Python's lists)."""
    ours, theirs = [], []
    for _ in range(draw.randrange(1, 7)):
        one = draw.choice(STACKS)
        match draw.randrange(5):
            case 0 | 1:
                ours.append(f"rg.push(s, {one})")
                theirs.append(f"push(s, {one}, 3)")
            case 2:
                ours.append(f"rg.pop(s, {one})")
                theirs.append(f"pop(s, {one})")
            case 3:
                ours.append("rg.push(d, s)")
                theirs.append("push(d, s, 2)")
            case _:
                ours.append(f"x += len({one}) + 10 * len(s) + 100 * len(d)")
                theirs.append(f"x.append(len({one}) + 10 * len(s) + 100 * len(d))")
    return ours, theirs


def test_random_sequences(tmp_path: Path) -> None:
    halted = 0
    for seed in range(40):
        draw = random.Random(seed)
        ours, theirs = drawn(draw)
        f = module_written(tmp_path / f"stacks_{seed}.py", HEAD + "".join(f"    {line}\n" for line in ours)).f
        given: list[Any] = [[[1], [], [2, 3]][: draw.randrange(4)], [[[9], [8, 7]]][: draw.randrange(2)]]
        given += [
            [[draw.randrange(99) for _ in range(draw.randrange(4))] for _ in range(3)],
            [5, 6][: draw.randrange(3)],
        ]
        s, d, a, t = copy.deepcopy(given)
        x: list[int] = []
        names = {"s": s, "d": d, "a": a, "t": t, "i": 1, "x": x, "push": push, "pop": pop}
        engine = ("reference", "native", "translated")[seed % 3]
        try:
            exec("\n".join(theirs), names)
        except Halt:
            with pytest.raises(rg.RetrogradError, match=r"RG080[26]"):
                rg.run(f, *given, 1, 0, engine=engine)
            halted += 1
            continue
        found = rg.run(f, *given, 1, 0, engine=engine)
        assert [*found.values] == [s, d, a, t, 1, sum(x)], (seed, ours)
        assert [*rg.run(~f, *found.values, engine=engine).values] == [*given, 1, 0], (seed, ours)
        assert found.erased_bits == 0
    assert 5 < halted < 30


@reversible
def nested(s: Stack[Stack[fixed, 3], 3], y: fixed):
    """Adds the top number of the top stack, and the count of its numbers; locals hold stacks for a while."""
    top = rg.pop(s)
    y += len(top)
    kept = rg.stack(Stack[fixed, 3], 2)
    rows = rg.zeros(2, dtype=Stack[fixed, 3])
    rg.push(kept, top)
    rg.pop(kept, rows[1])
    y += rg.top(rows[1])
    rg.push(s, rows[1])


def test_locals_hold_stacks() -> None:
    found = nested([[1.0], [2.0, 3.5]], 0.0)
    assert [*found] == [[[1.0], [2.0, 3.5]], 5.5]
    assert [*(~nested)(*found)] == [[[1.0], [2.0, 3.5]], 0.0]


@reversible
def dirty_array(x: int):
    rows = rg.zeros(2, dtype=Stack[int, 3])
    rg.push(rows[1], x)


@reversible
def dirty_stack(x: int):
    rows, row = rg.stack(Stack[int, 3], 2), rg.stack(int, 3)
    rg.push(row, x)
    rg.push(rows, row)


@reversible
def exchanged(s: Stack[int, 3], u: Stack[int, 3], a: Array[Stack[int, 3], 3], i: int, j: int):
    a[i], a[j] = a[j], a[i]
    s, u = u, s
    if i != j:
        rg.swap(a[1], u)


@pytest.mark.parametrize("engine", ["reference", "native", "translated"])
def test_stacks_are_exchanged(engine: Any) -> None:
    for i in range(3):
        for j in range(3):
            a = [[3], [4, 5, 6], []]
            given = [1, 2], [], copy.deepcopy(a)
            a[i], a[j] = a[j], a[i]
            u = [1, 2]
            if i != j:
                a[1], u = u, a[1]
            found = rg.run(exchanged, *given, i, j, engine=engine)
            assert [*found.values] == [[], u, a, i, j]
            assert [*rg.run(~exchanged, *found.values, engine=engine).values] == [*given, i, j]


@reversible
def of_two_rooms(s: Stack[int, 3], u: Stack[int, 4]):
    s, u = u, s


def test_stacks_of_two_types_are_not_exchanged() -> None:
    with pytest.raises(rg.RetrogradError, match="RG0703") as caught:
        of_two_rooms([], [])
    assert "Declare both stacks with one type" in str(caught.value.diagnostics[0].hint)


@pytest.mark.parametrize("f", [dirty_array, dirty_stack], ids=lambda f: f.__name__)
def test_stacks_that_are_freed_with_values_trap(f: Any) -> None:
    with pytest.raises(rg.RetrogradError, match="RG0802"):
        f(5)


@reversible
def pushed(s: Stack[Stack[int, 3], 2], a: Array[Stack[int, 3], 2], i: int):
    rg.push(s, a[i])


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (([[1, 2, 3, 4]], [[], []], 0), "RG0603", "a list of up to 3 values, not a list of 4"),
        (([1], [[], []], 0), "RG0603", "is a list of lists, and holds the int 1"),
        (([], [[]], 0), "RG0603", "its shape is"),
        (([], [1, 2], 0), "RG0603", "a list of up to 3 values, not the int 1"),
        (([], 5, 0), "RG0603", "it is one number"),
        (([[], []], [[], []], 0), "RG0806", "is full"),
        (([], [[], []], 2), "RG0801", "2"),
    ],
)
def test_values_of_other_forms_are_refused(args: tuple[Any, ...], code: str, words: str) -> None:
    with pytest.raises(rg.RetrogradError) as caught:
        pushed(*args)
    found = caught.value.diagnostics[0]
    assert found.code == code, found
    assert words in found.message, found


def test_an_occupied_stack_takes_no_top() -> None:
    with pytest.raises(rg.RetrogradError, match=r"`a\[i\]` must be empty to take the top of the stack `s`"):
        (~pushed)([[7]], [[1], []], 0)


@reversible
def of_itself(s: Stack[Stack[int, 3], 2]):
    rg.push(s, s[0])


@reversible
def of_another_room(s: Stack[Stack[int, 3], 2], t: Stack[int, 4]):
    rg.push(s, t)


def test_what_cannot_be_pushed() -> None:
    with pytest.raises(rg.RetrogradError, match="RG0705"):
        of_itself([[1]])
    with pytest.raises(rg.RetrogradError, match=r"RG0703.*Stack\[int, 4\] on a stack of Stack\[int, 3\]"):
        of_another_room([], [])


def test_batches_have_stacks_of_a_length_for_each_row() -> None:
    found = rg.run_batch(pushed, [[], [[3]]], [[[1, 2], []], [[], [4]]], [0, 1]).values
    assert [*found.s] == [[[1, 2]], [[3], [4]]]
    assert [*found.a] == [[[], []], [[], []]]
