"""Instructions of the user's own, and tables of other entries, on both tiers and in single runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.language.instructions import number, product, quotient, root, select
from retrograd.isa.entries import Function, a, b
from retrograd.isa.table import TABLE
from retrograd.simulator.engines.batch import cpu as on_cores
from retrograd.simulator.engines.cuda import batch as on_gpus
from retrograd.simulator.engines.cuda import stepped_machine
from retrograd.simulator.engines.cuda.batch import Setting
from retrograd.simulator.engines.cuda.interpreter import _key, all_opcodes, opcodes_for
from support import kernel_on_host

import retrograd as rg
from retrograd import Array, fixed, reversible


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    """The table of this process, as it was before."""
    kept = {name: value.copy() if isinstance(value, dict | list) else value for name, value in vars(TABLE).items()}
    yield
    vars(TABLE).update(kept)


@pytest.fixture(autouse=True)
def transformations() -> None:
    """Nothing is skipped here: each test runs once in the full tier, too."""


@reversible
def plain(y: fixed, x: fixed):
    y += x * x


def length(x: Any, y: Any, w: Any) -> Any:
    return root(product(x, x, w) + product(y, y, w), w)


@pytest.fixture(scope="module")
def key() -> str:
    """The key of the compiled interpreter before any instruction is added."""
    rg.run_batch(plain, np.zeros(3), np.arange(3.0), engine="cuda")
    return _key(rg.Format(), "sm_90", all_opcodes())


@pytest.fixture(scope="module")
def curve(key: str) -> Any:
    """y += x/(1 + |x|) · √(x² + z²)"""
    soft = rg.instruction("softsign", lambda x, w: quotient(x, number(1.0, w) + select(x.lt(0), -x, x), w))
    distance = rg.instruction(
        "distance",
        length,
        lambda x, y, w: (quotient(x, length(x, y, w), w), quotient(y, length(x, y, w), w)),
        domain=lambda x, y, w: (x | y).ne(0),
    )

    @reversible
    def f(y: fixed, x: fixed, z: fixed):
        y += soft(x) * distance(x, z)

    return f


FORMATS = [rg.Format(64, 32), *(pytest.param(rg.Format(w, w // 2), marks=pytest.mark.long) for w in (32, 16))]


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_values_and_gradients_of_a_batch(tier: str, curve: Any, form: rg.Format) -> None:
    xs, zs = np.linspace(-3, 3, 24), np.linspace(2, -2, 24)
    found, expected = (
        rg.run_batch(curve, np.zeros(24), xs, zs, engine=engine, format=form) for engine in ("cuda", "native")
    )
    assert (found.values.y == expected.values.y).all()
    assert found.steps.tolist() == expected.steps.tolist()
    back, expected = (rg.run_batch(~curve, *found.values, engine=engine, format=form) for engine in ("cuda", "native"))
    assert (back.values.y == 0).all()
    slopes, expected = (
        rg.vmap(rg.grad(curve, "x", engine=engine, format=form), (0, 0, 0))(np.zeros(24), xs, zs)
        for engine in ("cuda", "native")
    )
    assert (slopes == expected).all()


def test_traps_of_the_tree(tier: str, curve: Any) -> None:
    """Outside its domain, and where a square is too large."""
    xs = np.array([1.0, 0.0, 50_000.0, -2.0])
    found, expected = (
        rg.run_batch(curve, np.zeros(4), xs, 0.0, in_axes=(0, 0, None), engine=engine, traps="return")
        for engine in ("cuda", "native")
    )
    assert {i: str(trap) for i, trap in found.traps.items()} == {i: str(trap) for i, trap in expected.traps.items()}
    assert list(found.traps) == [1, 2]
    assert (found.values.y == expected.values.y).all()


def test_programs_without_them_keep_their_interpreter(key: str, curve: Any) -> None:
    """An instruction that is added changes neither the numbers of handlers nor the key of the compiled kernel."""
    own, other = (f.compiled(*np.zeros(n)).program for f, n in ((curve, 3), (plain, 2)))
    assert opcodes_for(other) == all_opcodes()
    assert len(opcodes_for(own)) == len(all_opcodes()) + 4
    assert _key(rg.Format(), "sm_90", opcodes_for(other)) == key != _key(rg.Format(), "sm_90", opcodes_for(own))
    rg.run_batch(plain, np.zeros(3), np.arange(3.0), engine="cuda")


#: a program of a table with an entry more, in the place of which TABLE has none
PROGRAM = ".memory 3\nstart\nld.add r1, [r0]\nld.add r2, [r0 + 1]\nblend.add r3, r1, r2\nst.add [r0 + 2], r3\nfinish\n"


def other_table(value: Any) -> Any:
    free = TABLE.free_code()
    return TABLE.extended(Function("blend", free, "user", value, "A test.", ("add", "sub"), differentiable=False))


def test_programs_of_other_tables(tier: str) -> None:
    """Two tables give one opcode two meanings."""
    for value, expected in ((lambda w: a + b * 3, 7 + 3 * 5), (lambda w: a * b, 7 * 5)):
        program = rg.assemble(PROGRAM, table=other_table(value))
        rows = np.array([[7, 5, 0], [1, 0, 0]], np.uint64)
        found = on_gpus.run_batch(program, rows, setting=Setting(block=2, piece=1))
        assert found.rows[0].tolist() == [7, 5, expected]
        assert np.array_equal(found.rows, on_cores.run_batch(program, rows).rows)


def test_a_parallel_loop_of_a_single_run(monkeypatch: pytest.MonkeyPatch) -> None:
    cube = rg.instruction("cube", lambda x, w: product(x, product(x, x, w), w))

    @reversible
    def f(ys: Array[fixed, "n"], xs: Array[fixed, "n"]):
        for i in range(len(xs)):
            ys[i] += cube(xs[i])

    monkeypatch.setattr(stepped_machine, "SteppedKernels", kernel_on_host.HostSteppedKernels)
    kernel_on_host.HostSteppedKernels.rounds.clear()
    xs = np.linspace(-3, 3, 200)
    found, expected = (rg.run(f, np.zeros(200), xs, engine=engine) for engine in ("cuda", "native"))
    assert (found.values.ys == expected.values.ys).all()
    assert found.steps == expected.steps
    assert kernel_on_host.HostSteppedKernels.rounds
