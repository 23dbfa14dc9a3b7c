"""Value numbering: equal values have equal numbers, and a value is changed by nothing else."""

from __future__ import annotations

import pytest
from retrograd.compiler.ir.effects import AccessAnalysis
from retrograd.compiler.ir.statements import (
    Kind,
    Local,
    Module,
    Node,
    Op,
    Operand,
    Procedure,
    Region,
    Var,
    Within,
)
from retrograd.compiler.ir.value_numbering import NumberedValue, ValueNumbering
from retrograd.isa.table import TABLE


def op(name: str, d: Operand | None = None, a: Operand | None = None, b: Operand | None = None, **more: object) -> Op:
    return Op(TABLE[name], d, a, b, **more)  # type: ignore[arg-type]


def fixed(*names: str) -> tuple[Var, ...]:
    return tuple(Var(name, Kind.FIXED) for name in names)


def ints(*names: str) -> tuple[Var, ...]:
    return tuple(Var(name) for name in names)


def module(*entry: Node, procedures: tuple[Procedure, ...] = (), memory: int = 64, **more: object) -> Module:
    return Module(entry, {p.name: p for p in procedures}, (), memory, **more)  # type: ignore[arg-type]


x, y, z, u, v = fixed("x", "y", "z", "u", "v")
i, j, k, n = ints("i", "j", "k", "n")
t, s, r = fixed("t", "s", "r")
A, B = Region("a", 8, 0), Region("b", 8, 8)


def loads(t: Var, at: Operand = i, region: Region = A, imm: int = 0) -> tuple[Node, ...]:
    return Local(t), op("ld.add", t, at, region=region, imm=imm)


def cut(*compute: Node) -> list[NumberedValue]:
    m = module(Within(compute, ()))
    return ValueNumbering(m, AccessAnalysis(m)).of(compute)


def test_equal_values_have_equal_numbers() -> None:
    def numbers(a: Var, b: Var, *more: Node) -> list[int]:
        return [value.number for value in values.of((*loads(a), Local(b), op("fmul.add", b, a, z), *more))]

    m = module()
    values = ValueNumbering(m, AccessAnalysis(m))
    assert numbers(t, s) == numbers(s, r)
    assert numbers(t, s)[0] == numbers(t, s, op("fmov.add", s, x))[0]
    assert numbers(t, s)[1] != numbers(t, s, op("fmov.add", s, x))[1]
    assert numbers(t, s)[1] != numbers(Var("t"), s)[1]


def test_a_value_is_all_that_one_statement_joins() -> None:
    swapped = Local(t), op("fexp.add", t, u), Local(s), op("fsin.add", s, v), op("swap", s, t)
    first, second, both = cut(*loads(u), *loads(v, j), *swapped)
    assert (first.locals, second.locals, both.locals) == ([u], [v], [t, s])
    assert both.needs == {first.number, second.number}
    assert both.access.reads == set()


@pytest.mark.parametrize("read", [t, s])
def test_a_value_does_not_change_behind_its_reader(read: Var) -> None:
    compute = (*loads(t), *loads(s, j), Local(r), op("fexp.add", r, read), op("swap", s, t))
    (whole,) = cut(*compute)
    assert whole.statements == compute


def test_what_changes_memory_is_one_value_with_what_depends_on_it() -> None:
    swap = Local(s), op("exch", s, i, region=A)
    behind = (*loads(r, j), op("fmul.add", r, s, s))
    value, tail = cut(*swap, *loads(t, region=B), *behind)
    assert value.locals == [t]
    assert not value.opaque
    assert tail.opaque
    assert tail.statements == (*swap, *behind)


def test_a_tail_that_goes_on_after_a_value_has_read_it_is_not_cut() -> None:
    """t and s are joined; t changes with x, a value reads s, and x changes again: no order of the parts computes them."""
    joined = (*loads(t), *loads(s, j), op("swap", s, t), op("swap", t, x))
    compute = (*joined, Local(r), op("fexp.add", r, s), op("fmov.add", x, y))
    (whole,) = cut(*compute)
    assert whole.statements == compute
