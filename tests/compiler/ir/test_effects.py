"""Read and write effects of statements, and what commutes by them."""

from __future__ import annotations

from retrograd.compiler.ir.effects import AccessAnalysis, of_op
from retrograd.compiler.ir.statements import (
    SP,
    Call,
    Const,
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


def test_instructions_change_places_unless_they_meet() -> None:
    load, store = op("ld.add", x, i, region=A), op("st.add", None, i, y, region=A)
    elsewhere, anywhere = op("st.add", None, i, y, region=B), op("st.add", None, i, y)
    assert not of_op(load).commutes(of_op(store))
    assert of_op(load).commutes(of_op(elsewhere))
    assert not of_op(load).commutes(of_op(anywhere))
    assert of_op(op("mov.add", x, y)).commutes(of_op(op("mov.add", z, y)))
    assert not of_op(op("mov.add", x, y)).commutes(of_op(op("mov.add", y, z)))


def test_calls_count_by_what_their_procedures_do() -> None:
    p, q = ints("p", "q")
    region = Region("parameter", 8)
    f = Procedure("f", (p, q), (region,), (op("st.add", None, q, p, region=region),), frozenset({0}))
    call = Call("f", (x, i), (B,))
    found = AccessAnalysis(module(call, procedures=(f,))).of(call)
    assert found.reads == {i, SP}
    assert found.writes == {x}
    assert found.stores == {B}


def test_a_recursive_call_touches_what_the_calls_within_it_touch() -> None:
    # f(p; P, Q): p ^= P[0]; g(p; Q, P)    g(p; P, Q): f(p; P, Q)    so that P and Q change places once a round
    (p,), P, Q = ints("p"), Region("P", 1), Region("Q", 1)
    f = Procedure(
        "f", (p,), (P, Q), (op("st.xor", None, Const(0), p, region=P), Call("g", (p,), (Q, P))), frozenset({0}), True
    )
    g = Procedure("g", (p,), (P, Q), (Call("f", (p,), (P, Q)),), frozenset({0}), True)
    C = Region("C", 1)
    for name in ("f", "g"):
        call = Call(name, (x,), (A, C))
        found = AccessAnalysis(module(call, procedures=(f, g))).of(call)
        assert (found.stores, found.loads, x in found.writes) == ({A, C}, {A, C}, True)


def test_locals_are_no_part_of_access_sets() -> None:
    node = Within(loads(t), (op("fmov.add", y, t),))
    found = AccessAnalysis(module(node)).of(node)
    assert (found.reads, found.writes, found.loads, found.stores) == ({i}, {y}, {A}, set())
