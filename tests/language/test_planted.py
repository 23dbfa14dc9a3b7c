"""Faults of the compiler that the other tests did not find when they were planted: each program here goes wrong with one of them."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def turn(n: int, a: int, b: int, c: int, d: int) -> None:
    """The call exchanges the parameters, so that in the end each of them is written."""
    if n > 0:
        a += n
        turn(n - 1, b, c, d, a)


@reversible
def turn_back(n: int, a: int, b: int, c: int) -> None:
    if n > 0:
        ~turn_back(n - 1, c, a, b)
        b -= n


@reversible
def passes_a_constant(x: int, y: int, z: int) -> None:
    turn(3, x, y, 5, z)


@reversible
def passes_one_variable_twice(x: int, y: int, z: int) -> None:
    turn(3, x, y, z, x)


def turned(n: int, values: list[int]) -> list[int]:
    """What `turn` leaves, one call after the other."""
    at = list(range(4))
    for k in range(n, 0, -1):
        values[at[0]] += k
        at = [*at[1:], at[0]]
    return values


@pytest.mark.parametrize("level", [0, 1])
def test_recursion_that_permutes_its_parameters(level: int) -> None:
    f = turn.with_options(level=level)
    for n in range(9):
        out = f(n, 10, 20, 30, 40)
        assert list(out)[1:] == turned(n, [10, 20, 30, 40])
        assert (~f)(*out) == (n, 10, 20, 30, 40)
    g = turn_back.with_options(level=level)
    out = g(6, 1, 2, 3)
    assert (~g)(*out) == (6, 1, 2, 3)
    assert tuple(out) != (6, 1, 2, 3)


@pytest.mark.parametrize(("f", "code"), [(passes_a_constant, "RG0709"), (passes_one_variable_twice, "RG0705")])
def test_what_the_recursion_writes_in_a_later_turn_is_known(f: rg.Reversible, code: str) -> None:
    with pytest.raises(rg.CompileError) as refused:
        f.lower()
    assert refused.value.code == code


@reversible
def down_below_the_index(y: int, a: Array[int, 3]) -> None:
    for i in range(3):
        for j in range(i, -1, -1):
            y += a[j - 1]


@reversible
def down_from_above(y: int, a: Array[int, 3]) -> None:
    for i in range(3):
        for j in range(i + 1, -1, -1):
            y += a[j]


@reversible
def down_within(y: int, a: Array[int, 3]) -> None:
    for i in range(3):
        for j in range(i, -1, -1):
            y += 10 * a[j] + i


@pytest.mark.parametrize("level", [0, 1])
def test_a_descending_loop_from_the_index_of_another_tests_its_indices(level: int) -> None:
    for f, index in ((down_below_the_index, -1), (down_from_above, 3)):
        with pytest.raises(rg.ProgramTrap, match=f"is {index}, and `a` has length 3") as trap:
            f.with_options(level=level)(0, [1, 2, 3])
        assert trap.value.code == "RG0801"
    result = down_within.with_options(level=level)(0, [1, 2, 3])
    assert result.y == sum(10 * [1, 2, 3][j] + i for i in range(3) for j in range(i + 1))


@reversible
def branch_that_traps(y: fixed, x: fixed, n: int) -> None:
    """The routine does not depend on the loop, and traps at x = 0; it leaves a loop only if a pass is certain."""
    for _ in range(n):
        with rg.routine() as r:
            t = fixed(0)
            if x < 1:
                t += 1 / x
        y += t
        ~r


@reversible
def branch_that_traps_otherwise(y: fixed, x: fixed, n: int) -> None:
    for _ in range(n):
        with rg.routine() as r:
            t = fixed(0)
            if x > 1:
                t += x
            else:
                t += rg.log(x)
        y += t
        ~r


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("f", [branch_that_traps, branch_that_traps_otherwise])
def test_a_loop_of_no_pass_around_a_branch_that_would_trap(f: rg.Reversible, level: int) -> None:
    g = f.with_options(level=level)
    assert g(0.5, 0.0, 0) == (0.5, 0.0, 0)
    with pytest.raises(rg.ProgramTrap):
        g(0.5, 0.0, 1)


@reversible
def add_to_all(a: Array[fixed, "n"], m: Array[fixed, "n", 3], x: fixed) -> None:
    a += x * x
    m += x + 1
    m -= a.T[0] if len(a) > 5 else 0.5


@reversible
def turn_all(a: Array[fixed, "n"], m: Array[fixed, "n", 3], x: fixed) -> None:
    rg.neg(a)
    rg.neg(m)


@reversible
def add_quotient(a: Array[fixed, "n"], m: Array[fixed, "n", 3], x: fixed) -> None:
    """The quotient is computed once, before all elements, and has no value at x = 2."""
    a += m.T[0] * (1 / (x - 2))


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("f", [add_to_all, turn_all, add_quotient])
def test_an_update_of_an_array_without_elements_does_nothing(f: rg.Reversible, level: int) -> None:
    g = f.with_options(level=level)
    for backward in (False, True):
        result = rg.run(g, np.zeros(0), np.zeros((0, 3)), 2.0, backward=backward)
        assert (result.values[0].shape, result.values[1].shape, result.values[2]) == ((0,), (0, 3), 2.0)
    assert g([1.0], [[1.0, 2.0, 3.0]], 3.0).x == 3.0


@reversible
def element_from_a_power(a: Array[fixed, 3], i: int, n: int) -> None:
    """What changes a word in memory may be a call: the word is taken out of memory meanwhile."""
    a[i] += 2.0**n - 1


@reversible
def element_chosen(a: Array[fixed, 3], i: int, x: fixed) -> None:
    a[i] += x * x if x > 0 else -x


@pytest.mark.parametrize("level", [0, 1])
def test_an_update_of_an_element_by_a_call_or_a_branch(level: int) -> None:
    assert element_from_a_power.with_options(level=level)([1.0, 2.0, 3.0], 1, 3).a.tolist() == [1.0, 9.0, 3.0]
    assert element_chosen.with_options(level=level)([1.0, 2.0, 3.0], 2, 3.0).a.tolist() == [1.0, 2.0, 12.0]
    assert element_chosen.with_options(level=level)([1.0, 2.0, 3.0], 0, -3.0).a.tolist() == [4.0, 2.0, 3.0]


@reversible
def squares(y: Array[fixed, "n"], x: Array[fixed, "n"]) -> None:
    y += x * x


@reversible
def push_all(s: rg.Stack[int, 4], x: int) -> None:
    rg.push(s, x)


def test_the_gradient_of_a_batch_needs_one_number_for_loss() -> None:
    """An array for loss is refused, and its first element is not taken for it."""
    for wrong in ("y", "x"):
        with pytest.raises(rg.RetrogradError, match=f"`{wrong}`"):
            rg.vmap(rg.grad(squares, "x", loss=wrong))(np.zeros((2, 3)), np.ones((2, 3)))


@pytest.mark.parametrize("stacks", [3, 2.5, None, "ab", np.zeros(2)])
def test_stacks_of_a_batch_are_a_list(stacks: object) -> None:
    with pytest.raises(rg.RetrogradError, match=r"takes a list of its values|is a list of up to 4 values"):
        rg.run_batch(push_all, stacks, [1, 2])
    with pytest.raises(rg.RetrogradError, match="takes a list of its values"):
        rg.vmap(push_all, in_axes=(1, 0))([[1], [2]], [1, 2])
