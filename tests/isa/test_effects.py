"""Effects: inversion form by form, the update operators, and what a table refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.isa.effects import (
    UPDATE_OPERATORS,
    Effect,
    Effects,
    Erase,
    Exchange,
    Permute,
    Unerase,
    Update,
    inverse,
    inverse_effect,
    substitute_in,
    transition,
    written,
)
from retrograd.isa.entries import Bijection, Function
from retrograd.isa.expr import Expr, const, evaluate, mul_shift, place, rotate_left, select
from retrograd.isa.folds import emit
from retrograd.isa.table import ENTRIES, TABLE, Table
from retrograd.isa.words import Format

Every = Callable[[Callable[[Any], None], Iterable[Any]], None]

PLACES = ("a", "b", "d", "m")
a, b, d, imm = place("a"), place("b"), place("d"), place("imm")
OPCODES = list(TABLE)
EIGHT = Format(8, 4)


def value_over(names: list[str]) -> st.SearchStrategy[Expr]:
    """A tree that reads only the places named."""
    x, y = place(names[0]), place(names[-1])
    return st.sampled_from([x, x + y, mul_shift(x, y, 4), x & imm, select(x.lt(y), y, 3), x ^ ~y, const(5), imm])


@st.composite
def one_effect(draw: Callable[..., Any], erasing: bool = False) -> Effect:
    names = draw(st.permutations(PLACES))
    kinds = ["update", "exchange", "exchange if", "permute"] + (["erase", "unerase"] if erasing else [])
    match draw(st.sampled_from(kinds)):
        case "update":
            return Update(names[0], draw(st.sampled_from(sorted(UPDATE_OPERATORS))), draw(value_over(names[1:])))
        case "exchange":
            return Exchange(names[0], names[1])
        case "exchange if":
            return Exchange(names[0], names[1], draw(value_over(names[2:])))
        case "permute":
            x, amount = place(names[0]), draw(value_over(names[1:]))
            forward, backward = draw(
                st.sampled_from(
                    [
                        (-x, -x),
                        (~x, ~x),
                        (rotate_left(x, amount), rotate_left(x, -amount)),
                        (x * 5, x * 205),  # 5·205 = 1025 = 1 mod 256
                    ]
                )
            )
            return Permute(names[0], forward, backward)
        case "erase":
            return Erase(names[0])
    return Unerase(names[0])


sequences = st.lists(one_effect(), max_size=5).map(tuple)
states = st.fixed_dictionaries({name: st.integers(0, 255) for name in (*PLACES, "imm")})


def run(effects: Effects, state: dict[str, int]) -> dict[str, int]:
    after = transition(effects, EIGHT)
    return {**state, **{name: evaluate(tree, EIGHT, state) for name, tree in after.items()}}


# ---------------------------------------------------------------- inversion


@given(st.lists(one_effect(erasing=True), max_size=6).map(tuple))
def test_inverse_of_inverse(effects: Effects) -> None:
    assert inverse(inverse(effects)) == effects


def check_inverse_of_inverse_in_the_table(opcode: Any) -> None:
    for w in (Format(4, 2), Format(64, 32)):
        effects = opcode.effects(w)
        assert inverse(inverse(effects)) == effects
        assert set(written(inverse(effects))) == set(written(effects))


def test_inverse_of_inverse_in_the_table(every: Every) -> None:
    every(check_inverse_of_inverse_in_the_table, OPCODES)


@given(sequences, states)
def test_a_sequence_and_its_inverse_are_the_identity(effects: Effects, state: dict[str, int]) -> None:
    assert run(inverse(effects), run(effects, state)) == state
    assert run(effects, run(inverse(effects), state)) == state


@given(sequences, sequences, states)
def test_sequences_compose(first: Effects, second: Effects, state: dict[str, int]) -> None:
    assert run(first + second, state) == run(second, run(first, state))
    assert inverse(first + second) == inverse(second) + inverse(first)


def test_inverse_of_each_form() -> None:
    assert inverse_effect(Update("d", "add", a)) == Update("d", "sub", a)
    assert inverse_effect(Update("d", "sub", a)) == Update("d", "add", a)
    assert inverse_effect(Update("d", "xor", a)) == Update("d", "xor", a)
    assert inverse_effect(Update("d", "mul", a)) == Update("d", "div", a)
    assert inverse_effect(Update("d", "div", a)) == Update("d", "mul", a)
    assert inverse_effect(Exchange("d", "a", b)) == Exchange("d", "a", b)
    assert inverse_effect(Permute("d", d + 1, d - 1, -1)) == Permute("d", d - 1, d + 1, -1)
    assert inverse_effect(Erase("d")) == Unerase("d")
    assert inverse_effect(Unerase("d")) == Erase("d")


def test_written_places_in_order() -> None:
    effects = (Update("m", "add", b), Exchange("d", "a"), Permute("m", -place("m"), -place("m")), Erase("b"))
    assert written(effects) == ("m", "d", "a", "b")
    assert written(()) == ()


def test_substitution_reaches_every_tree() -> None:
    effects = (Update("d", "add", imm), Exchange("d", "a", imm), Permute("d", d + imm, d - imm), Erase("b"))
    assert substitute_in(effects, {"imm": -imm}) == (
        Update("d", "add", -imm),
        Exchange("d", "a", -imm),
        Permute("d", d + -imm, d - -imm),
        Erase("b"),
    )


# ---------------------------------------------------------------- update operators


def test_operators_undo_each_other() -> None:
    for name, operator in UPDATE_OPERATORS.items():
        assert operator.name == name
        back = UPDATE_OPERATORS[operator.undone_by]
        assert back.undone_by == name
        # Cotangents travel with opposite signs through an operator and its inverse.
        assert operator.slope is None or back.slope == -operator.slope


def tabulate(tree: Expr, w: Format) -> list[list[int]]:
    """The tree's word for every x and v, through its Python source: walking it for 2^16 states is slow."""
    statements, (out,) = emit([tree], w, {"x": "x", "v": "v"})
    body = "".join(f"    {line}\n" for line in (*statements, f"return {out}"))
    scope: dict[str, Any] = {}
    exec(f"def run(x, v):\n{body}", scope)
    return [[scope["run"](x, v) for v in range(w.mask + 1)] for x in range(w.mask + 1)]


def combination(operator: str, w: Format) -> Expr:
    return UPDATE_OPERATORS[operator].combine(w, place("x"), place("v"))


def combined(operator: str, w: Format, x: int, v: int) -> int:
    return evaluate(combination(operator, w), w, {"x": x, "v": v})


@pytest.mark.parametrize("operator", UPDATE_OPERATORS)
@pytest.mark.parametrize("w", [Format(4, 2), Format(8, 4)], ids=str)
def test_operators_are_undone_on_all_words(operator: str, w: Format) -> None:
    forward = tabulate(combination(operator, w), w)
    backward = tabulate(combination(UPDATE_OPERATORS[operator].undone_by, w), w)
    for x, v in product(range(w.mask + 1), repeat=2):
        assert backward[forward[x][v]][v] == x, (x, v)


def lognum(word: int) -> tuple[int, int]:
    """(sign bit, log2|x| as a residue mod 8) of a 4-bit lognum."""
    return (1 if word >= 8 else 0), word % 8


@pytest.mark.parametrize(("operator", "direction"), [("mul", 1), ("div", -1)])
def test_lognum_operators_on_signs_and_logarithms(operator: str, direction: int) -> None:
    """Exhaustive at W = 4: signs multiply, logarithms add or subtract, and neither disturbs the other."""
    for x, v in product(range(16), repeat=2):
        (sign_x, log_x), (sign_v, log_v) = lognum(x), lognum(v)
        expected = ((sign_x + sign_v) % 2, (log_x + direction * log_v) % 8)
        assert lognum(combined(operator, Format(4, 2), x, v)) == expected, (x, v)


def test_lognum_product_is_the_product_of_the_numbers() -> None:
    w = Format(64, 32)

    def word(negative: bool, log: int) -> int:
        return (w.sign if negative else 0) | (log << 32 & (w.mask ^ w.sign))

    # −4 times 1/8 is −1/2, and −4 divided by 1/8 is −32.
    assert combined("mul", w, word(True, 2), word(False, -3)) == word(True, -1)
    assert combined("div", w, word(True, 2), word(False, -3)) == word(True, 5)
    assert combined("mul", w, word(True, 2), word(True, 2)) == word(False, 4)


@pytest.mark.parametrize(("operator", "sign"), [("add", 1), ("sub", -1)])
@pytest.mark.parametrize("w", [Format(4, 2), Format(8, 4)], ids=str)
def test_fits_says_whether_the_exact_result_is_a_word(operator: str, sign: int, w: Format) -> None:
    fits = UPDATE_OPERATORS[operator].fits
    assert fits is not None
    found = tabulate(fits(w, place("x"), place("v")), w)
    for x, v in product(range(w.mask + 1), repeat=2):
        exact = w.signed(x) + sign * w.signed(v)
        assert found[x][v] == int(-w.sign <= exact < w.sign), (x, v)


def test_operators_that_wrap_by_meaning_have_no_fits() -> None:
    assert [name for name, operator in UPDATE_OPERATORS.items() if operator.fits is None] == ["xor", "mul", "div"]


# ---------------------------------------------------------------- what is not reversible is refused


@pytest.mark.parametrize(
    "effects",
    [
        (Update("d", "add", d),),
        (Update("d", "xor", a & d),),
        (Update("m", "sub", select(place("m"), a, b)),),
        (Update("a", "add", b), Update("d", "add", d - a)),
        (Exchange("d", "a", d),),
        (Exchange("d", "a", a.lt(b)),),
    ],
    ids=str,
)
def test_reading_what_is_written_is_refused(effects: Effects) -> None:
    with pytest.raises(ValueError, match="reads"):
        transition(effects, Format())


#: an opcode that no entry has
FREE = TABLE.free_code()


def function(name: str = "odd", code: int = FREE, value: Expr = a, **more: Any) -> Function:
    return Function(name, code, "tests", lambda w: value, "An entry for a test.", **more)


def test_a_table_refuses_an_update_that_reads_its_target() -> None:
    with pytest.raises(ValueError, match="'d' reads 'd'"):
        TABLE.extended(function(value=d + a))
    with pytest.raises(ValueError, match="'m' reads 'm'"):
        TABLE.extended(function(value=place("m"), target="m"))
    with pytest.raises(ValueError, match="condition"):
        TABLE.extended(Bijection("odd", FREE, "tests", lambda w: (Exchange("d", "a", when=d),), ""))
    assert TABLE.extended(function(value=a + b))["odd.add"].code == FREE


@pytest.mark.parametrize("code", [TABLE["mov.add"].code, TABLE["mov.xor"].code, TABLE["mov.add"].code - 1])
def test_a_table_refuses_overlapping_opcodes(code: int) -> None:
    with pytest.raises(ValueError, match=r"odd\.\w+: opcode 0x0\w is already that of mov\.\w+"):
        TABLE.extended(function(code=code))


def test_a_table_refuses_a_bijection_whose_inverse_overlaps() -> None:
    def rotate(w: Format) -> Effects:
        return (Permute("d", rotate_left(d, a), rotate_left(d, -a)),)

    taken = Bijection("odd", TABLE["mov.add"].code - 1, "tests", rotate, "", inverse_name="ddo")
    with pytest.raises(ValueError, match=r"ddo: opcode 0x04 is already that of mov\.add"):
        TABLE.extended(taken)


@pytest.mark.parametrize("code", [0, -1, 256, 254])
def test_a_table_refuses_codes_outside_the_byte(code: int) -> None:
    # 254 is the first of three: its exclusive or would be 256. Zero stays illegal, as empty memory is.
    with pytest.raises(ValueError, match=r"is not in 0x01..0xff"):
        TABLE.extended(function(code=code))


def test_a_table_refuses_taken_names() -> None:
    with pytest.raises(ValueError, match=r"mov\.add: the name is taken"):
        TABLE.extended(function(name="mov"))
    with pytest.raises(ValueError, match="ror: the name is taken"):
        TABLE.extended(Bijection("ror", FREE, "tests", lambda w: (), ""))
    with pytest.raises(ValueError, match="finish: the name is taken"):
        TABLE.extended(Bijection("begin", FREE, "tests", lambda w: (), "", inverse_name="finish"))


def test_a_table_refuses_taken_shorthands() -> None:
    # `add` must go on meaning mov.add, whatever is added.
    with pytest.raises(ValueError, match="add"):
        TABLE.extended(function(shorthand="{}"))


def test_a_table_refuses_a_missing_inverse() -> None:
    with pytest.raises(ValueError, match=r"odd\.add: its inverse 'odd\.sub' is missing"):
        TABLE.extended(function(updates=("add",)))
    with pytest.raises(ValueError, match=r"odd\.mul: its inverse 'odd\.div' is missing"):
        TABLE.extended(function(updates=("mul", "xor")))
    assert TABLE.extended(function(updates=("xor",)))["odd.xor"].inverse_name == "odd.xor"


def test_a_table_refuses_a_missing_immediate_form() -> None:
    with pytest.raises(ValueError, match=r"odd\.add: its immediate form 'oddi' is missing"):
        TABLE.extended(function(immediate_form="oddi"))


def test_extending_leaves_the_table_as_it_was() -> None:
    before = len(TABLE)
    assert len(TABLE.extended(function())) == before + 3
    assert len(TABLE) == before
    assert "odd.add" not in TABLE.by_name
    assert len(Table(ENTRIES)) == before


def check_immediate_forms_keep_the_update(opcode: Any) -> None:
    form = TABLE.immediate_form(opcode)
    if opcode.entry.immediate_form is None:
        assert form is None
        return
    assert form is not None
    assert form.entry.name == opcode.entry.immediate_form
    assert (form.update, form.writes) == (opcode.update, opcode.writes)
    # It computes the same, with the constant where the last register was.
    last = {"rb": "b", "ra": "a"}[opcode.operands[-1]]
    for w in (Format(8, 4), Format(64, 32)):
        state = {"a": 0x5B, "b": 0x29, "d": 0x33, "br": 0}
        same = {**state, "imm": state[last]}
        found = {p: evaluate(tree, w, same) for p, tree in form.transition(w).items()}
        assert found == {p: evaluate(tree, w, state) for p, tree in opcode.transition(w).items()}


def test_immediate_forms_keep_the_update(every: Every) -> None:
    every(check_immediate_forms_keep_the_update, OPCODES)
