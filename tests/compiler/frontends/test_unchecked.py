"""`with rg.unchecked()`: which tests are left out and which stay. Results are equal wherever no test would fail."""

from __future__ import annotations

import ast
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from support.random_programs import checks, generate

import retrograd as rg
from retrograd import Array, fixed, reversible

#: random programs of which the body of each function is put into a block without tests
PROGRAMS, SLOW, SHARD = 10, 2_000, 50


@reversible
def chain(y: fixed, x: Array[fixed, "n"]) -> None:
    for i in range(len(x)):
        t = x[i] * x[i]
        x[i] += 0.0 * y
        y += t
        rg.free(t, x[i] * x[i])


@reversible
def chain_unchecked(y: fixed, x: Array[fixed, "n"]) -> None:
    for i in range(len(x)):
        with rg.unchecked():
            t = x[i] * x[i]
            x[i] += 0.0 * y
            y += t
            rg.free(t, x[i] * x[i])


@reversible
def dirty(y: int, x: int) -> None:
    t = x
    t += y
    y += 1
    rg.free(t, x)


@reversible
def dirty_unchecked(y: int, x: int) -> None:
    with rg.unchecked():
        t = x
        t += y
        y += 1
        rg.free(t, x)


@reversible
def made_inside(y: int, x: int) -> None:
    """The variable is freed at the end of the function, which is outside of the block."""
    with rg.unchecked():
        t = x
    t += y
    y += 1


@reversible
def freed_inside(y: int, x: int) -> None:
    t = x
    t += y
    y += 1
    with rg.unchecked():
        rg.free(t, x)


@reversible
def array_inside(y: int, x: int) -> None:
    with rg.unchecked():
        t = rg.zeros(3, dtype=int)
    t[1] += y
    y += x


@reversible
def array_with_tests(y: int, x: int) -> None:
    t = rg.zeros(3, dtype=int)
    t[1] += y
    y += x


@reversible
def pairs(y: int, a: Array[int, 4], n: int) -> None:
    if (n > 0 and a[0] > 0, y > 3 and a[0] > 0):
        y += a[1]


@reversible
def pairs_unchecked(y: int, a: Array[int, 4], n: int) -> None:
    with rg.unchecked():
        if (n > 0 and a[0] > 0, y > 3 and a[0] > 0):
            y += a[1]


@reversible
def routine_unchecked(y: int, x: Array[int, 3], i: int) -> None:
    with rg.unchecked():
        with rg.routine() as r:
            t = x[i]
        x[0] += t
        y += t
        ~r


@reversible
def routine_with_tests(y: int, x: Array[int, 3], i: int) -> None:
    with rg.routine() as r:
        t = x[i]
    x[0] += t
    y += t
    ~r


@reversible
def index(y: int, x: Array[int, 3], i: int) -> None:
    with rg.unchecked():
        y += x[i]


@reversible
def claims(y: int, x: int) -> None:
    with rg.unchecked():
        assert x > 0
        y += x


@reversible
def stack_is_full(y: int, x: int) -> None:
    with rg.unchecked():
        s = rg.stack(int, 1)
        t = x
        u = x
        rg.push(s, t)
        rg.push(s, u)
        rg.pop(s, u)
        rg.pop(s, t)


@reversible
def ends_with_the_block(y: int, x: int) -> None:
    with rg.unchecked():
        y += x
    t = x
    t += y
    y += 1
    rg.free(t, x)


PAIRS = [(chain, chain_unchecked), (dirty, dirty_unchecked), (dirty, made_inside), (dirty, freed_inside),
         (array_with_tests, array_inside), (pairs, pairs_unchecked), (routine_with_tests, routine_unchecked)]  # fmt: skip
ARGUMENTS: dict[rg.Reversible, tuple[Any, ...]] = {
    chain: (0.0, [1.0, 2.0]), dirty: (0, 4), array_with_tests: (0, 4), pairs: (3, [1, 2, 3, 4], 1),
    routine_with_tests: (0, [1, 2, 3], 2),
}  # fmt: skip


def plain(results: Any) -> list[Any]:
    """Results that `==` compares."""
    return [np.asarray(r).tolist() for r in results]


def zero_tests(f: rg.Reversible, level: int, *arguments: object) -> int:
    """How many instructions of the program test a word for zero."""
    program = f.with_options(level=level).compiled(*arguments).program
    return sum(i.opcode.name == "assertz" for i in program.instructions)


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize(("checked", "without"), PAIRS, ids=lambda f: f.__name__)
def test_no_test_is_left_and_results_are_equal(checked: rg.Reversible, without: rg.Reversible, level: int) -> None:
    arguments = ARGUMENTS[checked]
    assert zero_tests(without, level, *arguments) == 0 < zero_tests(checked, level, *arguments)
    f, g = checked.with_options(level=level), without.with_options(level=level)
    out = f(*arguments)
    assert plain(g(*arguments)) == plain(out)
    assert plain((~g)(*out)) == plain((~f)(*out))


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("f", [dirty_unchecked, made_inside, freed_inside, pairs_unchecked, array_inside])
def test_a_variable_that_is_not_zero_is_freed(f: rg.Reversible, level: int) -> None:
    """The program is as wrong as its author made it, and has no trap."""
    f.with_options(level=level)(*((7, [1, 2, 3, 4], 0) if f is pairs_unchecked else (3, 4)))


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize(
    ("f", "arguments", "code"),
    [
        (index, (0, [1, 2, 3], 3), "RG0801"),
        (index, (0, [1, 2, 3], -1), "RG0801"),
        (stack_is_full, (0, 1), "RG0806"),
        (claims, (0, 0), "RG0804"),
        (ends_with_the_block, (3, 4), "RG0802"),
        (dirty, (3, 4), "RG0802"),
        (array_with_tests, (3, 4), "RG0802"),
        (pairs, (7, [1, 2, 3, 4], 0), "RG0803"),
    ],
)
def test_tests_that_stay(f: rg.Reversible, arguments: tuple[Any, ...], code: str, level: int) -> None:
    with pytest.raises(rg.RetrogradError) as trapped:
        f.with_options(level=level)(*arguments)
    assert trapped.value.code == code


def test_gradients_are_equal() -> None:
    arguments = 0.0, [1.0, -2.0, 3.0]
    found = rg.grad(chain_unchecked)(*arguments)
    assert plain(found) == plain(rg.grad(chain)(*arguments))
    assert plain(found)[0] == [2.0, -4.0, 6.0]


class _Unchecked(ast.NodeTransformer):
    """The body of each reversible function in a block without tests."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if any("reversible" in ast.unparse(d) for d in node.decorator_list):
            (block,) = ast.parse("with rg.unchecked(): pass").body
            assert isinstance(block, ast.With)
            block.body = node.body
            node.body = [block]
        return node


def examine(
    seed: int,
) -> str:
    """Run a random program with and without tests: how the run with them went."""
    case = generate.generate(seed)
    source = ast.unparse(ast.fix_missing_locations(_Unchecked().visit(ast.parse(case.source))))
    assert source.count("rg.unchecked()") > 0
    other = checks.Case(source, case.parameters, case.format, case.entry, case.seed)
    words = checks.arguments(case, random.Random(case.seed))
    try:
        went = "ended"
        for level in (0, 1):
            plain, without = case.compiled(level), other.compiled(level)
            before = checks.memory_of(plain, words)
            first = checks.run(plain.program, before)
            if first.trap is not None:
                went = "trapped"
                continue
            then = first.machine.memory
            checks.finished(checks.run(without.program, before), then, f"level {level}")
            checks.finished(checks.run(without.program, then, backward=True), before, f"level {level}, backward")
            # At level 1 shorter functions are copied into their callers more often.
            assert level > 0 or len(without.program.instructions) <= len(plain.program.instructions)
    except Exception as error:
        error.add_note(f"program: generate({seed}), {case.format}\n\n{source}")
        raise
    finally:
        case.release()
        other.release()
    return went


def test_random_programs() -> None:
    went = Counter(
        examine(
            seed,
        )
        for seed in range(PROGRAMS)
    )
    assert went["ended"] > PROGRAMS // 2, went


@pytest.mark.long
@pytest.mark.parametrize("first", range(PROGRAMS, PROGRAMS + SLOW, SHARD))
def test_more_random_programs(
    first: int,
) -> None:
    failures: list[Exception] = []
    for seed in range(first, first + SHARD):
        try:
            examine(
                seed,
            )
        except Exception as error:
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {SHARD} programs", failures)
