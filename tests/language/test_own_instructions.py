"""`rg.instruction`: an instruction of the user's, from a tree, on every engine."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.compiler.language.instructions import number, product, quotient, root, select
from retrograd.isa.table import TABLE, Table

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.hardware.runs import run_on_hardware
from retrograd.testing import check_gradient, check_inverse


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    """The table of the ISA alone, as a new process has it, since few opcodes are free; then that of this process again."""
    kept = dict(vars(TABLE))
    vars(TABLE).update(vars(Table(entry for entry in TABLE.entries if entry not in TABLE.own)))
    yield
    vars(TABLE).update(kept)


@pytest.fixture(scope="module")
def curve(table: None) -> Any:
    """y += x³ + x/(1 + |x|) + √(x² + z²), and over an array"""
    cube = rg.instruction("cube", lambda x, w: product(x, product(x, x, w), w))
    soft = rg.instruction("softsign", lambda x, w: quotient(x, number(1.0, w) + select(x.lt(0), -x, x), w))

    def length(x: Any, y: Any, w: Any) -> Any:
        return root(product(x, x, w) + product(y, y, w), w)

    distance = rg.instruction(
        "distance",
        length,
        lambda x, y, w: (quotient(x, length(x, y, w), w), quotient(y, length(x, y, w), w)),
        domain=lambda x, y, w: (x | y).ne(0),
    )

    @reversible
    def f(y: fixed, x: fixed, z: fixed, v: Array[fixed, "n"]):
        y += cube(x) + soft(x) * distance(x, z)
        for i in range(len(v)):
            v[i] -= soft(z)
        y += rg.sum(cube(v))

    return f


def expected(x: float, z: float, v: list[float]) -> float:
    soft = z / (1 + abs(z))
    return x**3 + x / (1 + abs(x)) * math.hypot(x, z) + sum((e - soft) ** 3 for e in v)


@pytest.fixture(autouse=True)
def cleared(curve: Any) -> Iterator[None]:
    """The instructions of `curve` alone stay: those of one test leave their opcodes to the next."""
    kept = {name: value.copy() if isinstance(value, dict | list) else value for name, value in vars(TABLE).items()}
    yield
    vars(TABLE).update(kept)


NUMBERS = st.floats(-2, 2).filter(lambda x: abs(x) > 0.05)


def test_second_derivatives_trap_at_the_kinks_of_the_tree(curve: Any) -> None:
    for x, z in ((0.0, 1.0), (0.0, -0.5)):
        assert rg.grad(curve, "x")(0.0, x, z, []) == rg.jvp(curve, (0.0, x, z, []), {"x": 1.0})[1].y
        with pytest.raises(rg.ProgramTrap, match="softsign has no second derivative at 0") as caught:
            rg.hessian(curve, "x")(0.0, x, z, [])
        assert caught.value.diagnostics[0].code == "RG0815"

    radius = rg.instruction("radius", lambda x, y, w: root(product(x, x, w) + product(y, y, w), w))

    @reversible
    def f(y: fixed, x: fixed, z: fixed):
        y += radius(x, z) ** 2

    assert np.allclose(rg.hessian(f, ("x", "z"))(0.0, 3.0, 4.0), 2 * np.eye(2), atol=1e-8)
    with pytest.raises(rg.ProgramTrap, match="radius has no second derivative at 0"):
        rg.hessian(f, ("x", "z"))(0.0, 0.0, 0.0)


@pytest.mark.long
@given(x=NUMBERS, z=NUMBERS)
def test_values_inverses_and_derivatives(curve: Any, x: float, z: float) -> None:
    args = 0.0, x, z, [0.5, -1.0]
    assert curve(*args).y == pytest.approx(expected(x, z, [0.5, -1.0]), abs=1e-7)
    check_inverse(curve, *args)
    check_gradient(curve, *args, argnums=("x", "z", "v"))
    gradient, h = rg.grad(curve, "x"), 2.0**-12
    slope = (gradient(0.0, x + h, z, [0.5, -1.0]) - gradient(0.0, x - h, z, [0.5, -1.0])) / (2 * h)
    assert rg.hessian(curve, "x")(*args) == pytest.approx(slope, rel=1e-3, abs=1e-3)
    assert rg.jvp(curve, args, {"x": 1.0})[1].y == pytest.approx(gradient(*args), abs=1e-6)


@pytest.mark.parametrize("engine", ["reference", "threaded", "translated", "native"])
def test_engines_agree(curve: Any, engine: str) -> None:
    args = 0.0, 1.25, -0.75, np.array([0.5, 2.0])
    assert repr(rg.run(curve, *args, engine=engine).values) == repr(curve(*args))
    assert rg.grad(curve, "x", engine=engine)(*args) == rg.grad(curve, "x", engine="reference")(*args)
    xs = np.linspace(-2, 2, 37)
    batch = rg.run_batch(curve, 0.0, xs, -0.75, np.zeros(2), in_axes=(None, 0, None, None), engine=engine)
    assert batch.values.y.tolist() == [curve(0.0, x, -0.75, np.zeros(2)).y for x in xs]


@pytest.mark.long
def test_it_runs_on_the_hardware(curve: Any) -> None:
    args = 0.0, 1.25, -0.75, np.array([0.5])
    assert repr(run_on_hardware(curve, *args, format="Q16.16").values) == repr(
        rg.run(curve, *args, format="Q16.16").values
    )


@pytest.mark.long
def test_a_co_processor_made_before_does_not_lack_it() -> None:
    """Microcode is kept by the entries of the table, too."""

    @reversible
    def move(y: fixed, x: fixed):
        y += x

    assert run_on_hardware(move, 0.0, 1.25, format="Q8.8").values.y == 1.25
    twice = rg.instruction("twice_on_hardware", lambda x, w: x + x)

    @reversible
    def doubled(y: fixed, x: fixed):
        y += twice(x)

    assert run_on_hardware(doubled, 0.0, 1.25, format="Q8.8").values.y == 2.5


@pytest.mark.long
def test_an_instruction_of_ints() -> None:
    gray = rg.instruction("gray", lambda x, w: x ^ x.shr(1), kind="int")

    @reversible
    def code(y: int, x: int):
        y ^= gray(x)
        y += gray(2 * x)

    assert code(0, 6).y == (6 ^ 3) + (12 ^ 6)
    check_inverse(code, 0, 6)


def test_traps_of_the_tree(curve: Any) -> None:
    with pytest.raises(rg.ProgramTrap, match="RG0403"):
        curve(0.0, 0.0, 0.0, [])
    with pytest.raises(rg.ProgramTrap, match="RG0404"):
        curve(0.0, 3000.0, 1.0, [])

    more = rg.instruction("more", lambda x, w: x + number(1.0, w))

    @reversible
    def g(y: fixed, x: fixed):
        y += more(x)

    assert g(0.0, 0.5).y == 1.5
    # Q1.31 has no word for 1.
    with pytest.raises(rg.ProgramTrap, match="RG0403"):
        rg.run(g, 0.0, 0.5, format=rg.Format(32, 31))


def test_the_same_definition_gives_the_same_instruction() -> None:
    def define(k: int) -> Any:
        return rg.instruction("multiple", lambda x, w: product(k << w.frac if w.frac + 3 < w.width else 1, x, w))

    assert define(3).entry is define(3).entry
    with pytest.raises(rg.CompileError, match="an instruction already, with another tree"):
        define(2)


def test_the_table_has_room_for_seven(curve: Any) -> None:
    """As the page says: the three of `curve`, and four more."""
    for k in range(4):
        rg.instruction(f"free{k}", lambda x, w: x + x)
    with pytest.raises(rg.CompileError, match="no opcode left for `free4`") as caught:
        rg.instruction("free4", lambda x, w: x + x)
    assert "the 7 instructions that this process has added" in str(caught.value.diagnostics[0].hint)


def test_the_name_of_an_entry_of_the_table_is_taken() -> None:
    with pytest.raises(rg.CompileError, match=r"fmul\.add: the name is taken"):
        rg.instruction("fmul", product)
    assert "fmul" not in [entry.name for entry in TABLE.own]


_PROGRAM = """
import retrograd as rg
from retrograd import fixed, reversible
from retrograd.compiler.language.instructions import product

power = rg.instruction("power", lambda x, w: {tree})

@reversible
def f(y: fixed, x: fixed):
    y += power(x)

print(*(rg.run(f, 0.0, 3.0, engine=e).values.y for e in ("threaded", "translated")))
"""


@pytest.mark.long
def test_code_of_another_tree_is_not_taken_from_the_cache(tmp_path: Path) -> None:
    """Two processes define an instruction of one name and opcode by different trees."""
    environment = {**os.environ, "RETROGRAD_CACHE": str(tmp_path)}
    tmp_path.chmod(0o700)
    found = []
    for tree in ("product(x, x, w)", "product(x, product(x, x, w), w)"):
        file = tmp_path / "program.py"
        file.write_text(_PROGRAM.format(tree=tree), encoding="utf-8")
        ran = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, check=True)
        found.append(ran.stdout.split())
    assert found == [["9.0", "9.0"], ["27.0", "27.0"]]
