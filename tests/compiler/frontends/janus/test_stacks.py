"""Stacks of stacks and arrays of stacks of Janus: random programs beside the interpreter of the source."""

from __future__ import annotations

import random
from collections import Counter
from types import ModuleType
from typing import Any

import pytest
from retrograd.compiler.frontends.janus.parser import read
from retrograd.isa.diagnostics import CompileError

from retrograd.runtime._execution import ProgramTrap
from retrograd.runtime._reversible import JanusFunction, run


@pytest.fixture(scope="module")
def random_programs(module: Any) -> ModuleType:
    return module("tests/compiler/frontends/janus/test_random_programs.py")


@pytest.fixture(scope="module")
def source_interpreter(module: Any) -> ModuleType:
    return module("tests/compiler/frontends/janus/source_interpreter.py")


def program(seed: int) -> str:
    """A program whose `main` has stacks of depth 1 to 3, and an array and a field of stacks."""
    draw = random.Random(seed)
    text = [
        "struct box { stack stack in, int n }",
        "procedure fill(stack s, int n)",
        "    iterate int i = 1 to n",
        "        local int v = i * 7 - 9",
        "            push(v, s)",
        "        delocal int v = 0",
        "    end",
        "procedure shift(stack stack from_, stack stack to_)",
        "    local stack t = nil",
        "        pop(t, from_)",
        "        push(t, to_)",
        "    delocal stack t = nil",
        "procedure join(stack to_, stack from_)",
        "    local int v = 0",
        "        pop(v, from_)",
        "        push(v, to_)",
        "    delocal int v = 0",
        "procedure main()",
        "    stack s",
        "    stack a[3]",
        "    stack stack ss",
        "    stack stack rows[2]",
        "    stack stack stack sss",
        "    struct box b[2]",
        "    int k = 1",
        "    int n",
    ]
    ones = ["s", "a[0]", "a[k]", "a[k + 1]", "a[2 - k]"]
    twos = ["ss", "rows[0]", "rows[k]", "b[0].in", "b[k].in"]
    for _ in range(draw.randrange(6, 14)):
        one, other = draw.sample(ones, 2)
        two, further = draw.sample(twos, 2)
        lines = [
            f"call fill({one}, {draw.randrange(1, 4)})",
            f"push({one}, {two})",
            f"n += size({one}) * 100 + size({two}) * 10 + size(rows[k])",
            f"{one} <=> {other}",
            f"{two} <=> {further}",
            f"call fill({one}, 3) push({one}, {two}) call fill({one}, 2) push({one}, {two}) push({two}, sss)",
            "call fill(s, 2) call fill(a[k], 3) call join(a[k], s)",
            f"if !empty({two}) then call shift({two}, {further}) fi !empty({further})",
            f"pop({one}, {two})",
            f"n ^= top({one})",
            f"pop({two}, sss)",
        ]
        weights = [6, 6, 3, 2, 2, 4, 3, 2, 1, 1, 1]
        (line,) = draw.choices(lines, weights)
        text.append(f"    {line}")
    return "\n".join(text) + "\n"


def test_random_programs_with_stacks(
    random_programs: ModuleType, source_interpreter: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: Counter[str] = Counter()
    for seed in range(24):
        try:
            codes[random_programs.compare(program(seed), seed, source_interpreter, capsys)] += 1
        except CompileError as error:
            codes.update(d.code for d in error.diagnostics)
    assert codes[""] >= 5, codes
    assert codes["RG0806"] + codes["RG0802"] >= 3, codes


def test_stacks_are_lists_of_lists_in_both_directions() -> None:
    text = """
        procedure f(stack stack s, stack a[2], stack t)
            push(a[1], s)
            pop(t, s)
            push(t, s)
            pop(a[0], s)
    """
    f = JanusFunction(read(text, "f.ja"), "f")
    given = [[[1, 2], [], [3]], [[], [4, 5]], []]
    found = run(f, *given)
    assert [*found.values] == [[[1, 2], [], [3]], [[4, 5], []], []]
    assert [*run(~f, *found.values).values] == given
    assert found.erased_bits == 0


BODY = """
procedure f(stack s, stack t)
    s <=> t
procedure main()
    stack s
    stack a[2]
    stack stack ss
    int n = 3
    {}
"""


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("push(s, s)", "RG0703", "`s` is no int, and `s` holds ints"),
        ("push(n, ss)", "RG0703", "`n` is no stack, and `ss` holds stacks"),
        ("push(a, ss)", "RG0703", "`a` is no stack"),
        ("push(n, a)", "RG0703", "`a` is no stack"),
        ("push(ss, ss)", "RG0703", "no stack, and"),
        ("n += top(ss)", "RG0703", "is a stack, and no number"),
        ("s <=> ss", "RG0703", "two types"),
        ("a[0] <=> ss", "RG0703", "two types"),
        ("a[0] <=> a[0]", "RG0705", "with itself"),
        ("push(n, s[0])", "RG0703", "0 dimensions"),
        ("push(n, a[size(a[0])])\n    push(n, a[size(a[0])])", "RG0704", "which the statement changes"),
    ],
)
def test_errors(line: str, code: str, words: str) -> None:
    with pytest.raises(CompileError) as caught:
        run(JanusFunction(read(BODY.format(line), "e.ja"), "main"))
    found = caught.value.diagnostics[0]
    assert found.code == code, found
    assert words in found.message, found
    assert found.hint, found


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [
        ("pop(s, ss)", "RG0806", "`ss`"),
        (
            "local stack b[2] = nil\n push(n, b[1])\n n += 5\n delocal stack b[2] = nil",
            "RG0802",
            "`b` holds values when it is",
        ),
        ("call f(a[1], a[size(s) + 1])", "RG0805", "is the element"),
        ("push(s, ss)\n    push(n, s)\n    pop(s, ss)", "RG0802", "`s` must be empty"),
        ("push(n, a[1 + size(ss) * 2 + 1])", "RG0801", "outside of an array of length 2"),
        ("a[n - 3] <=> a[n - n]", "RG0805", "exchanges an element with itself"),
        ("iterate int i = 1 to 65\n push(s, ss)\n end", "RG0806", "the stack `ss` is full"),
        (
            "iterate int i = 1 to 65\n local int v = i\n push(v, s)\n delocal int v = 0\n end\n push(s, ss)",
            "RG0806",
            "`s` holds 65 values, and a stack on `ss` has room for 64",
        ),
    ],
)
def test_traps(lines: str, code: str, words: str) -> None:
    with pytest.raises(ProgramTrap) as caught:
        run(JanusFunction(read(BODY.format(lines), "e.ja"), "main"))
    found = caught.value.diagnostics[0]
    assert found.code == code, found
    assert words in found.message, found


@pytest.mark.parametrize(
    "procedure", ["f(int x[][], int y[])\n    x[1][0] += y[1]", "f(int x[][], int y[])\n    y[0] += 1"]
)
def test_an_array_and_its_part_are_not_passed_where_one_changes(procedure: str) -> None:
    text = f"procedure {procedure}\nprocedure main()\n    int a[2][2]\n    call f(a, a[1])\n"
    with pytest.raises(CompileError, match="RG0705"):
        run(JanusFunction(read(text, "f.ja"), "main"))
    text = text.replace("x[1][0] +=", "assert 0 =").replace("y[0] += 1", "skip")
    assert run(JanusFunction(read(text, "f.ja"), "main")).values[0].tolist() == [[0, 0], [0, 0]]


#: the local stack of a procedure that calls itself has room for 1,024 values, `s` for 4,096
TWO_ROOMS = """
procedure f(stack s, int n)
    local stack t = nil
    s <=> t
    n += size(t)
    if n < 0 then
        call f(s, n)
    fi n < 0
    t <=> s
    delocal stack t = nil
procedure main()
    stack s
    int n
    iterate int i = 1 to {}
        local int v = i
        push(v, s)
        delocal int v = 0
    end
    call f(s, n)
"""


def test_stacks_of_two_capacities_are_exchanged_where_the_values_fit() -> None:
    f = JanusFunction(read(TWO_ROOMS.format(1024), "e.ja"), "main")
    found = run(f)
    assert found.values.n == 1024
    assert found.values.s == [*range(1, 1025)]
    assert [*run(~f, *found.values).values] == [[], 0]
    with pytest.raises(ProgramTrap, match=r"RG0806.*the stack `s` holds 1025 values, and `t` has room for 1024"):
        run(JanusFunction(read(TWO_ROOMS.format(1025), "e.ja"), "main"))
