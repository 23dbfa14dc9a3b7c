"""Gradients without a forward sweep: the results, and the traps, are those of the program with one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.derivatives import _requests
from retrograd.derivatives._requests import DerivedProgram, plan_of

HALF = 2.0**30


@rg.reversible
def products(out: rg.fixed, x: rg.Array[rg.fixed, 4], y: rg.Array[rg.fixed, 4]):
    for i in range(4):
        out += x[i] * y[i]


@rg.reversible
def overwritten(out: rg.fixed, x: rg.fixed):
    out += x * x
    x += out


@rg.reversible
def promised(out: rg.fixed, n: int, x: rg.Array[rg.fixed, 4]):
    assert n <= 4
    for i in range(n):
        out += x[i] * x[i]


@rg.reversible
def both(a: rg.Array[rg.fixed, 2], count: rg.Array[int, 2], x: rg.fixed, up: bool):
    a[0] += x * x
    if up:
        a[1] += rg.exp(x)
        count[1] += 1
    count[0] -= 3


def program(f: Any, by: Any, *args: Any) -> DerivedProgram:
    """The gradient program of f by some of its arguments."""
    request = rg.grad(f, by).request
    return plan_of(request, request.compiled(request.values(args, {}))).program


def fresh(f: rg.Reversible) -> rg.Reversible:
    """The function, with derived programs of its own."""
    return rg.reversible(f.fn)


X, Y = np.array([1.5, -2.0, 0.25, 3.0]), np.array([2.0, 1.0, -4.0, 0.5])


def test_a_program_that_only_accumulates_needs_no_forward_sweep() -> None:
    f = fresh(products)
    fast = program(f, ("x", "y"), 0.5, X, Y)
    assert fast.complete is not None

    def writes_output(program: rg.Program) -> bool:
        return any("m" in i.opcode.writes and i.ra == i.imm == 0 for i in program.instructions)

    assert writes_output(fast.complete().program)
    assert not writes_output(fast.compiled.program)
    value, (x, y) = rg.value_and_grad(f, ("x", "y"))(0.5, X, Y)
    assert value == 0.5 + X @ Y
    assert (x == Y).all()
    assert (y == X).all()
    assert program(f, ("x", "y"), 0.5, X, Y).complete is not None


def test_a_program_that_reads_its_output_keeps_its_forward_sweep() -> None:
    assert program(overwritten, "x", 0.0, 2.0).complete is None
    assert rg.value_and_grad(overwritten, "x")(0.0, 2.0) == (4.0, 4.0)


def test_arguments_keep_their_words() -> None:
    f = fresh(products)
    fast = program(f, ("x", "y"), 0.5, X, Y)
    memory = fast.run([0.5, X, Y], {}).memory
    w = fast.compiled.format
    assert [w.signed(word) / 2.0**32 for word in memory[:9]] == [0.5, *X, *Y]


def test_several_outputs_of_several_types() -> None:
    _, back = rg.vjp(both, [0.0, 1.0], [5, 6], 1.0, True)
    found = back({"a": [1.0, 2.0]})
    assert found.x == pytest.approx(2 + 2 * np.e, abs=1e-8)
    assert (found.a == [1.0, 2.0]).all()


def test_sums_that_may_overflow_run_with_a_forward_sweep() -> None:
    f = fresh(products)
    x, y = np.array([HALF, -HALF, HALF, -HALF]), np.ones(4)
    value, slope = rg.value_and_grad(f, "x")(0.0, x, y)
    assert value == 0.0
    assert (slope == y).all()
    assert program(f, "x", 0.0, x, y).complete is None, "the condition is likely to fail again"


def test_sums_that_overflow_trap_as_in_the_function() -> None:
    f = fresh(products)
    x, y = np.array([HALF, HALF, -HALF, -HALF]), np.ones(4)
    with pytest.raises(rg.ProgramTrap) as plain:
        f(0.0, x, y)
    with pytest.raises(rg.ProgramTrap) as found:
        rg.value_and_grad(f, "x")(0.0, x, y)
    assert found.value.diagnostics == plain.value.diagnostics
    assert program(f, "x", 0.0, x, y).complete is not None


def test_the_initial_output_counts_too() -> None:
    f = fresh(products)
    x, one = np.array([-HALF, 0, 0, HALF * 0.75]), np.ones(4)
    assert rg.value_and_grad(f, "y")(1.5 * HALF, x, one)[0] == 1.25 * HALF
    with pytest.raises(rg.ProgramTrap, match="does not fit"):
        rg.value_and_grad(f, "y")(1.5 * HALF, -x, one)


@pytest.mark.parametrize("engine", ["auto", "threaded", "translated"])
def test_elements_of_a_batch_that_may_overflow(engine: str) -> None:
    f = fresh(products)
    x = np.tile(X, (30, 1))
    x[[3, 17]] = [HALF, -HALF, HALF, -HALF]
    y = np.ones(4)
    derived = rg.vmap(rg.value_and_grad(f, ("x", "y")), (None, 0, None), engine=engine)
    value, (_, by_y) = derived(0.0, x, y)
    assert (value == x.sum(axis=1)).all()
    assert (by_y == x).all()
    summed = rg.vmap(rg.grad(f, "y"), (None, 0, None), engine=engine, shared="sum")(0.0, x, y)
    assert (summed == x.sum(axis=0)).all()
    assert program(f, ("x", "y"), 0.0, X, y).complete is not None
    x[20] = [HALF, HALF, HALF, HALF]
    with pytest.raises(rg.ElementTrap, match="element 20: ") as found:
        derived(0.0, x, y)
    assert found.value.element == 20


def test_jacobians_and_hessians_that_may_overflow() -> None:
    x, y = np.array([HALF, -HALF, HALF, -HALF]), np.ones(4)
    assert (rg.jacobian(fresh(products), "y")(0.0, x, y) == x).all()
    assert (rg.hessian(fresh(products), "y")(0.0, x, y) == 0).all()
    mixed = rg.hessian(fresh(products), ("x", "y"))(0.0, x, y)
    assert (mixed[0][1] == np.eye(4)).all()


def test_promises_trap_as_in_the_function() -> None:
    with pytest.raises(rg.ProgramTrap) as plain:
        promised(0.0, 5, X)
    with pytest.raises(rg.ProgramTrap) as found:
        rg.grad(promised, "x")(0.0, 5, X)
    assert found.value.diagnostics == plain.value.diagnostics
    assert (rg.grad(promised, "x")(0.0, 3, X) == [3.0, -4.0, 0.5, 0.0]).all()


def test_a_program_that_takes_long_runs_with_a_forward_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_requests, "_LIMIT", 20)
    f = fresh(products)
    assert (rg.grad(f, "x")(0.0, X, Y) == Y).all()
    assert program(f, "x", 0.0, X, Y).complete is None
    g = fresh(products)
    assert (rg.vmap(rg.grad(g, "x"), (None, 0, None), engine="translated")(0.0, [X, Y], Y) == Y).all()
    assert program(g, "x", 0.0, X, Y).complete is None
