"""An instruction and functions of the language added, each by one entry, and nothing else edited: the rest must follow.

The instruction counts bits. Of the functions one is computed by it, one by an instruction with a derivative, and one by an expression.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.instructions import number, quotient, select
from retrograd.compiler.language.intrinsics import EXPRESSION, Intrinsic
from retrograd.isa.table import TABLE

import retrograd as rg
from retrograd import Array, fixed, functional, reversible
from tests.laws.test_new_entry import POPC

ROOT = Path(__file__).parents[2]
#: the functions of the language, without the three that are added here
OWN = dict(intrinsics.INTRINSICS)


@pytest.fixture(scope="module")
def added() -> Iterator[SimpleNamespace]:
    """The functions; the tables of this process are as before afterwards."""
    tables = (intrinsics.INTRINSICS, intrinsics.FUNCTIONS, intrinsics.FOREIGN)
    kept = [dict(table) for table in tables]
    opcodes = {name: value.copy() if isinstance(value, dict | list) else value for name, value in vars(TABLE).items()}
    TABLE.add(POPC)
    rg.instruction("softened", lambda x, w: quotient(x, number(1.0, w) + select(x.lt(0), -x, x), w))
    entries = [
        Intrinsic("popcount", EXPRESSION, "The bits that are set.", instruction="ones", kind=Kind.INT),
        Intrinsic("softsign", EXPRESSION, "x / (1 + |x|).", lambda x: x / (1 + abs(x)), instruction="softened"),
        Intrinsic(
            "plane", EXPRESSION, "x² y.", lambda x, y: x * x * y, 2,
            value=lambda a, x, y: a.binary("*", a.binary("*", x, x), y), foreign=(np.kron,),
        ),
    ]  # fmt: skip
    yield SimpleNamespace(**{f.__name__: intrinsics.entered(f) for f in entries})
    for table, before in zip(tables, kept, strict=True):
        table.clear()
        table.update(before)
    vars(TABLE).update(opcodes)


def test_variables_and_the_inverse(added: SimpleNamespace) -> None:
    popcount, plane = added.popcount, added.plane

    @reversible
    def f(n: int, ns: Array[int, 3], z: fixed, k: int, x: fixed, ks: Array[int, 3]):
        n += popcount(k)
        ns -= popcount(ks)
        z += plane(x, x + 1.0)

    given: Any = (0, [0, 0, 0], 0.0, -1, 1.5, [7, 8, 0])
    n, ns, z, *_ = results = f(*given)
    assert (n, list(ns), z) == (64, [-3, -1, 0], 5.625)
    assert [*(~f)(*results)][:3] == [0, pytest.approx([0, 0, 0]), 0.0]


def test_constants(added: SimpleNamespace) -> None:
    popcount, softsign, plane = added.popcount, added.softsign, added.plane

    @reversible
    def f(n: int, ns: Array[int, 3], x: fixed, z: fixed):
        n += popcount(7) + popcount(-1)
        ns += popcount(np.array([1, 3, 7]))
        x += softsign(-1)
        z += plane(2, 0.5) + np.kron(3.0, 0.25)

    assert [*map(np.ndarray.tolist, map(np.asarray, f(0, [0, 0, 0], 0.0, 0.0)))] == [67, [1, 2, 3], -0.5, 4.25]


def test_functional_functions(added: SimpleNamespace) -> None:
    popcount, softsign, plane = added.popcount, added.softsign, added.plane

    @functional
    def of_variables(k: int, x: fixed) -> fixed:
        return popcount(k) + softsign(x) + plane(x, 2.0)

    @functional
    def of_constants(x: fixed) -> fixed:
        return x + popcount(7) + softsign(1.0) + plane(2.0, 0.5)

    @functional
    def as_a_value(x: fixed) -> fixed:
        def twice(f, v):
            return f(f(v))

        return twice(softsign, x)

    assert of_variables(6, 1.0) == pytest.approx(4.5)
    assert of_constants(0.25) == pytest.approx(5.75)
    assert as_a_value(1.0) == pytest.approx(1 / 3)


def test_derivatives(added: SimpleNamespace) -> None:
    popcount, softsign, plane = added.popcount, added.softsign, added.plane

    @reversible
    def f(y: fixed, x: fixed, z: fixed, k: int):
        y += softsign(x) * plane(x, z) + popcount(k)

    @functional
    def g(x: fixed, z: fixed) -> fixed:
        return softsign(x) * plane(x, z)

    x, z = 1.5, -0.75
    wanted = [(3 * x * x * (1 + x) - x**3) / (1 + x) ** 2 * z, x**3 / (1 + x)]
    found = rg.grad(f)(0.0, x, z, 3)
    assert [found.x, found.z] == pytest.approx(wanted, abs=1e-8)
    assert [float(d) for d in rg.grad(g)(x, z)] == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("front_end", [reversible, functional])
def test_the_number_of_arguments(added: SimpleNamespace, front_end: Any) -> None:
    plane = added.plane
    if front_end is reversible:

        @reversible
        def f(y: fixed, x: fixed):
            y += plane(x)
    else:

        @functional
        def f(y: fixed, x: fixed) -> fixed:
            return y + plane(x)

    with pytest.raises(rg.CompileError, match=r"RG0715(.|\n)*plane` takes 2 arguments"):
        f(0.0, 1.0)


def test_it_is_for_the_compiler(added: SimpleNamespace) -> None:
    with pytest.raises(rg.CompileError, match=r"rg\.plane is part of the language"):
        added.plane(1.0, 2.0)


def test_each_function_is_public_and_documented() -> None:
    page = (ROOT / "docs/api.md").read_text() + (ROOT / "docs/language.md").read_text()
    assert not OWN.keys() & intrinsics.NOT_HERE.keys()
    for name, f in OWN.items():
        assert getattr(rg, name) is f
        assert f.__doc__
        assert name in page
