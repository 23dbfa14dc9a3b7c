"""Planted faults: each must be found by the laws, on states and by the solver. A law that finds nothing here is broken."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest
from retrograd.isa import effects, laws, smtlib
from retrograd.isa.effects import Effects, Exchange, Permute, Update
from retrograd.isa.encoding import encode
from retrograd.isa.entries import NOT_JUMPING, Bijection, Entry, Function, Guard, a, b, br, d, imm
from retrograd.isa.expr import mul_shift, rotate_left, select
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format

FOUR = Format(4, 2)
CODE = TABLE.free_code()


def bijection(name: str, of: Effects, **more: object) -> Bijection:
    return Bijection(name, CODE, "tests", lambda w: of, "A planted fault.", **more)  # type: ignore[arg-type]


def verdict(text: str) -> str:
    import z3  # type: ignore[import-untyped]

    solver = z3.Solver()
    solver.from_string(text)
    return str(solver.check())


def found_by_states(table: Table, name: str) -> list[str]:
    opcode = table[name]
    states = laws.all_states(opcode, FOUR)
    return list(islice(laws.inverse_counterexamples(opcode, FOUR, states, table), 3))


#: what is wrong -> the entry that does it. `right` differs from its fault only in the fault.
FAULTS: dict[str, Bijection] = {
    "the inverse forgets a step": bijection("bad", (Permute("d", d + 2, d - 1),), inverse_name="dab"),
    "the inverse rotates the same way": bijection(
        "bad", (Permute("d", rotate_left(d, a), rotate_left(d, a)),), inverse_name="dab"
    ),
    "claims to be its own inverse": bijection("bad", (Permute("d", d + 1, d - 1),)),
    "claims to be its own inverse, as an update": bijection("bad", (Update("d", "add", a),)),
    "a permutation that loses a bit": bijection("bad", (Permute("d", d & 7, d & 7),)),
    "a permutation that doubles": bijection("bad", (Permute("d", d + d, d - d),), inverse_name="dab"),
    "wrong for one word only": bijection("bad", (Permute("d", select(d.eq(5), 6, d), d),), inverse_name="dab"),
    "a product by an even number": bijection("bad", (Permute("d", d * 6, d * 3),), inverse_name="dab"),
    "not commuting, own inverse": bijection("bad", (Update("d", "xor", a), Exchange("d", "a"))),
    "a branch that keeps its offset": bijection(
        "bad",
        (Update("br", "add", imm),),
        guards=lambda w: (Guard(br.eq(0) | br.eq(-imm), "RG0405", inverted_code="RG0406"),),
    ),
    "a conditional branch that keeps its offset": bijection("bad", (Update("br", "add", select(a.lt(b), imm, 0)),)),
    "a branch that turns, wrongly": bijection(
        "bad", (Permute("br", imm + br, imm - br),), negates_immediate=True, turns=True
    ),
    "the inverse traps": bijection("bad", (Permute("d", ~d, ~d),), guards=lambda w: (Guard(d.ne(0), "RG0407"),)),
    "the inverse traps, in a branch": bijection(
        "bad", (Update("br", "add", imm),), negates_immediate=True, guards=lambda w: (NOT_JUMPING,)
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_on_states(fault: str) -> None:
    entry = FAULTS[fault]
    found = found_by_states(TABLE.extended(entry), "bad")
    assert found != []
    assert found[0].startswith("bad: {")


@pytest.mark.parametrize("w", [Format(8, 4), Format(16, 8)], ids=str)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_the_solver(fault: str, w: Format) -> None:
    table = TABLE.extended(FAULTS[fault])
    assert verdict(smtlib.reversibility(table["bad"], w, table)) == "sat"


def test_a_fault_is_found_from_the_other_side() -> None:
    # The inverse opcode is an opcode like any other: a fault in the backward tree is its fault too.
    table = TABLE.extended(FAULTS["the inverse forgets a step"])
    assert found_by_states(table, "dab") != []
    assert verdict(smtlib.reversibility(table["dab"], Format(8, 4), table)) == "sat"


#: The same entries without the fault: the laws are silent, so it is the fault that they heard.
RIGHT: dict[str, Bijection] = {
    "a step": bijection("good", (Permute("d", d + 2, d - 2),), inverse_name="doog"),
    "a rotation": bijection("good", (Permute("d", rotate_left(d, a), rotate_left(d, -a)),), inverse_name="doog"),
    "a product by an odd number": bijection("good", (Permute("d", d * 3, d * 11),), inverse_name="doog"),
    "an exchange and an update": bijection("good", (Update("d", "xor", a), Exchange("d", "a")), inverse_name="doog"),
    "a branch": bijection(
        "good",
        (Update("br", "add", imm),),
        negates_immediate=True,
        guards=lambda w: (Guard(br.eq(0) | br.eq(-imm), "RG0405", inverted_code="RG0406"),),
    ),
    "a branch that turns": bijection("good", (Permute("br", imm - br, imm - br),), negates_immediate=True, turns=True),
    "a guard": bijection("good", (Permute("d", -d, -d),), guards=lambda w: (Guard(d.ne(0), "RG0407"),)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_silent(name: str) -> None:
    table = TABLE.extended(RIGHT[name])
    assert found_by_states(table, "good") == []
    # 3·11 = 33 is 1 mod 16 and mod 32, and at no other width here.
    w = FOUR if "odd" in name else Format(8, 4)
    assert verdict(smtlib.reversibility(table["good"], w, table)) == "unsat"


# ---------------------------------------------------------------- faults that the table would have refused


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> Callable[[Entry], Table]:
    """A table whose check that updates do not read their target has been switched off."""
    monkeypatch.setattr(effects, "inputs", lambda *trees: frozenset())
    return TABLE.extended


ALIASING = {
    "d += d": Function("bad", CODE, "tests", lambda w: d, ""),
    "d += a & d": Function("bad", CODE, "tests", lambda w: a & d, ""),
    "d += d·a": Function("bad", CODE, "tests", lambda w: mul_shift(d, a, w.frac), ""),
}


@pytest.mark.parametrize("fault", ALIASING)
@pytest.mark.parametrize("update", ["add", "sub", "xor"])
def test_an_aliasing_update_is_found(fault: str, update: str, unguarded: Callable[[Entry], Table]) -> None:
    table = unguarded(ALIASING[fault])
    name = f"bad.{update}"
    assert found_by_states(table, name) != []
    assert verdict(smtlib.reversibility(table[name], Format(8, 4), table)) == "sat"


def test_an_exchange_that_reads_what_it_moves_is_found(unguarded: Callable[[Entry], Table]) -> None:
    table = unguarded(bijection("bad", (Exchange("d", "a", when=d),)))
    assert found_by_states(table, "bad") != []
    assert verdict(smtlib.reversibility(table["bad"], Format(8, 4), table)) == "sat"


def test_a_wrong_operator_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # Were `-=` said to be undone by itself, every subtraction would break.
    wrong = effects.UpdateOperator("sub", "−=", lambda w, x, v: x - v, "sub", -1)
    monkeypatch.setitem(effects.UPDATE_OPERATORS, "sub", wrong)
    table = TABLE.extended(Function("bad", CODE, "tests", lambda w: a, ""))
    assert found_by_states(table, "bad.sub") != []
    assert verdict(smtlib.reversibility(table["bad.sub"], Format(8, 4), table)) == "sat"
    assert any("inverse of its inverse" in text for text in laws.encoding_counterexamples(table))


# ---------------------------------------------------------------- encodings


@pytest.mark.long
def test_partners_far_apart_are_found() -> None:
    # 0xB1 and 0xB2 differ in two bits.
    far = Bijection("far", CODE + 1, "tests", lambda w: (Permute("d", d + 1, d - 1),), "", inverse_name="raf")
    assert any("more than one bit" in text for text in laws.encoding_counterexamples(TABLE.extended(far)))
    odd = Function("far", CODE + 1, "tests", lambda w: a, "")
    assert any("more than one bit" in text for text in laws.encoding_counterexamples(TABLE.extended(odd)))


#: reads ra on the way forward only
UNEVEN = Bijection("uneven", CODE, "tests", lambda w: (Permute("d", d + a, d - 1),), "", inverse_name="nevenu")


def test_partners_with_other_fields_are_found() -> None:
    found = islice(laws.encoding_counterexamples(TABLE.extended(UNEVEN)), 1)
    assert any("different fields" in text for text in found)


def test_the_law_of_encodings_tells_and_does_not_raise() -> None:
    # A counterexample is what the law is asked for: finding one must not stop it.
    found = list(laws.encoding_counterexamples(TABLE.extended(UNEVEN)))
    assert any("different fields" in text for text in found)


def test_an_encoding_that_forgets_a_field_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "encode", lambda i: encode(i) & ~(1 << 32 | 1))
    assert any("decodes to" in text for text in laws.encoding_counterexamples())
