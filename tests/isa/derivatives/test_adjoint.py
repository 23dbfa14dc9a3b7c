"""Adjoints: the derived lift against finite differences, and the reasons of what has no derivative.

With x' = T(x) and J its Jacobian, cotangents are to move as x̄' = J⁻ᵀ x̄. The tests check Jᵀ x̄' = x̄, which says
the same of a regular J and needs no inverse.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from retrograd.isa.derivatives import NoDerivative, lift, vector_jacobian
from retrograd.isa.effects import UPDATE_OPERATORS, Effects, Exchange, Permute, Update, inverse, transition
from retrograd.isa.entries import Bijection, Function, Opcode, bar, opcodes_of
from retrograd.isa.expr import Expr, div_shift, evaluate, mul_round, mul_shift, place, select, sqrt_round
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from support.real_values import real_value

Every = Callable[[Callable[[Any], None], Iterable[Any]], None]

W = Format(64, 32)
ONE_REAL = float(1 << W.frac)
CONTROL = ("imm", "br")
a, b, d, m = place("a"), place("b"), place("d"), place("m")


def has_derivative(opcode: Opcode) -> bool:
    try:
        lift(opcode, W)
    except NoDerivative:
        return False
    return True


def is_named(opcode: Opcode) -> bool:
    """Whether the derivative is stated in `derivatives.py`: then the tree has no meaning over real numbers."""
    entry = opcode.entry
    return (entry.partials if isinstance(entry, Function) else entry.lift) is not None


DIFFERENTIABLE = [o for o in TABLE if has_derivative(o)]
#: Those of the others are held against mpmath, in tests/isa/numbers.
DERIVED = [o for o in DIFFERENTIABLE if not is_named(o)]
WITHOUT = [o for o in TABLE if not has_derivative(o)]

#: What is bitwise on words and yet affine on the numbers they stand for: ¬d = −d − 1, and a lognum's
#: logarithm (the number its cotangent speaks of) is added to.
AFFINE: dict[str, Expr] = {"not": -d - 1, "lmov.mul": d + a, "lmov.div": d - a}


def real_transition(opcode: Opcode) -> dict[str, Expr]:
    if opcode.name in AFFINE:
        return {"d": AFFINE[opcode.name]}
    return opcode.transition(W)


def differentiated_places(opcode: Opcode) -> list[str]:
    names = {*opcode.reads, *opcode.writes} - set(CONTROL)
    return sorted(names)


def jacobian(after: Mapping[str, Expr], places: list[str], point: dict[str, float]) -> dict[tuple[str, str], float]:
    """(i, j) -> ∂x'_i/∂x_j by central differences, in words, over which the numbers scale alike."""
    step = 2.0**14
    out: dict[tuple[str, str], float] = {}
    for j in places:
        high, low = {**point, j: point[j] + step}, {**point, j: point[j] - step}
        for i in places:
            tree = after.get(i, place(i))
            out[i, j] = (real_value(tree, W, high) - real_value(tree, W, low)) / (2 * step)
    return out


def sample(rng: random.Random, places: list[str]) -> tuple[dict[str, float], dict[str, float]]:
    """A point away from kinks and poles, magnitudes in [1, 4], and cotangents in [−2, 2]; whole words."""
    point = {p: float(round(rng.uniform(1, 4) * ONE_REAL)) * rng.choice((1, -1)) for p in places}
    cotangents = {bar(p): float(round(rng.uniform(-2, 2) * ONE_REAL)) for p in places}
    return point, cotangents


def samples(opcode: Opcode, count: int) -> list[tuple[dict[str, float], dict[str, float]]]:
    rng = random.Random(opcode.code)
    places = differentiated_places(opcode)
    out = []
    for _ in range(count):
        point, cotangents = sample(rng, places)
        if opcode.entry.name == "fsqrt":
            point["a"] = abs(point["a"])
        out.append((point, cotangents))
    if opcode.name == "cswap":  # the control's other value: nothing is exchanged
        out.append(({**out[0][0], "b": 0.0}, out[0][1]))
    return out


def check_lift(after: Mapping[str, Expr], effects: Effects, point: dict[str, float], bars: dict[str, float]) -> None:
    places = sorted(point)
    moved = transition(effects, W)
    env = {**point, **bars, "imm": 3.0, "br": 0.0}
    lifted = {p: real_value(moved.get(bar(p), place(bar(p))), W, env) for p in places}
    j = jacobian(after, places, {**point, "imm": 3.0, "br": 0.0})
    for p in places:
        transported = sum(j[i, p] * lifted[i] for i in places)
        assert transported == pytest.approx(bars[bar(p)], rel=1e-6, abs=1e-6 * ONE_REAL), (p, point)


# ---------------------------------------------------------------- the law


@pytest.mark.parametrize("opcode", [o for o in DERIVED if o.name != "swapbr"], ids=lambda o: o.name)
def test_lift_is_the_inverse_transpose_jacobian(opcode: Opcode) -> None:
    if not differentiated_places(opcode):
        assert lift(opcode, W) == ()
    for point, bars in samples(opcode, 12):
        check_lift(real_transition(opcode), lift(opcode, W), point, bars)


def test_the_affine_forms_are_what_the_words_do() -> None:
    # AFFINE stands in for three transitions above; here it is held to them, signs of lognums set aside.
    rng = random.Random(3)
    for name, tree in AFFINE.items():
        for _ in range(50):
            env = {p: rng.getrandbits(64) for p in "ad"}
            wrong = evaluate(tree, W, env) ^ evaluate(TABLE[name].transition(W)["d"], W, env)
            assert wrong & (W.mask if name == "not" else W.sign - 1) == 0


@pytest.mark.parametrize("opcode", DERIVED, ids=lambda o: o.name)
def test_integer_lift_agrees_with_the_real_one(opcode: Opcode) -> None:
    places = differentiated_places(opcode)
    moved = transition(lift(opcode, W), W)
    for point, bars in samples(opcode, 12):
        env = {**point, **bars, "imm": 3.0, "br": 0.0}
        words = {name: W.wrap(int(value)) for name, value in env.items()}
        for p in places:
            tree = moved.get(bar(p), place(bar(p)))
            exact = real_value(tree, W, env)
            found = W.signed(evaluate(tree, W, words))
            # At most three roundings, each scaled by a cotangent or a reciprocal of at most 2.
            assert abs(found - exact) <= 8, (p, point, bars)


@pytest.mark.parametrize("opcode", DIFFERENTIABLE, ids=lambda o: o.name)
def test_lift_of_the_inverse_undoes_the_lift(opcode: Opcode) -> None:
    """Differentiation mode is reversible, bit for bit: lift(i) at x, then lift(i⁻¹) at T(x), restore every word."""
    rng = random.Random(opcode.code)
    undo = TABLE.inverse(opcode)
    places = sorted({*opcode.reads, *opcode.writes, "br", "imm"})
    forward, moved = opcode.transition(W), transition(lift(opcode, W), W)
    moved_back = transition(lift(undo, W), W)
    for _ in range(30):
        state = {p: rng.getrandbits(64) for p in places} | {bar(p): rng.getrandbits(64) for p in places}
        if opcode.name == "cswap" and rng.random() < 0.5:
            state["b"] = 0
        after = {**state, **{p: evaluate(t, W, state) for p, t in (forward | moved).items()}}
        restored = {**after, **{p: evaluate(t, W, after) for p, t in moved_back.items()}}
        bars = [bar(p) for p in places]
        assert {p: restored[p] for p in bars} == {p: state[p] for p in bars}


@pytest.mark.parametrize("opcode", DIFFERENTIABLE, ids=lambda o: o.name)
def test_lift_writes_shadows_only(opcode: Opcode) -> None:
    for effect in lift(opcode, W):
        match effect:
            case Update(where) | Permute(where):
                names = {where}
            case Exchange(left, right):
                names = {left, right}
        assert all(name.endswith(bar("")) for name in names)
        assert not names & {bar("imm"), bar("br")}


def test_branches_move_no_cotangent() -> None:
    for opcode in DIFFERENTIABLE:
        if opcode.group == "branches":
            assert lift(opcode, W) == (), opcode.name


# ---------------------------------------------------------------- by hand


def test_lifts_by_hand() -> None:
    da, dd = place(bar("a")), place(bar("d"))
    assert lift(TABLE["mov.add"], W) == (Update(bar("a"), "sub", dd),)
    assert lift(TABLE["mov.sub"], W) == (Update(bar("a"), "add", dd),)
    assert set(lift(TABLE["fmul.sub"], W)) == {
        Update(bar("a"), "add", mul_round(dd, b, 32)),
        Update(bar("b"), "add", mul_round(dd, a, 32)),
    }
    assert lift(TABLE["st.add"], W) == (Update(bar("b"), "sub", place(bar("m"))),)
    assert lift(TABLE["ld.sub"], W) == (Update(bar("m"), "add", dd),)
    assert lift(TABLE["swap"], W) == (Exchange(bar("d"), bar("a")),)
    assert lift(TABLE["cswap"], W) == (Exchange(bar("d"), bar("a"), b),)
    assert lift(TABLE["exch"], W) == (Exchange(bar("d"), bar("m")),)
    assert lift(TABLE["neg"], W) == (Permute(bar("d"), -dd, -dd, slope=-1),)
    assert lift(TABLE["lmov.div"], W) == (Update(bar("a"), "add", dd),)
    assert lift(TABLE["imm.add"], W) == ()
    assert da not in {effect.value for effect in lift(TABLE["mov.add"], W) if isinstance(effect, Update)}


@pytest.mark.parametrize(
    ("value", "point", "expected"),
    [
        (a + a, {"a": 3.0}, {"a": 2.0}),
        (a - b, {"a": 3.0, "b": 2.0}, {"a": 1.0, "b": -1.0}),
        (mul_shift(a, a, 32), {"a": 3.0}, {"a": 6.0}),
        (mul_shift(mul_shift(a, b, 32), a, 32), {"a": 3.0, "b": 5.0}, {"a": 30.0, "b": 9.0}),
        (div_shift(a, b, 32), {"a": 6.0, "b": 2.0}, {"a": 0.5, "b": -1.5}),
        (div_shift(a, a, 32), {"a": 6.0}, {"a": 0.0}),
        (sqrt_round(a, 32), {"a": 4.0}, {"a": 0.25}),
        (select(a.lt(b), a + a, b), {"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 0.0}),
        (select(a.lt(b), a + a, b), {"a": 2.0, "b": 1.0}, {"a": 0.0, "b": 1.0}),
        (a << 3, {"a": 1.0}, {"a": 8.0}),
        (a.sar(2), {"a": 1.0}, {"a": 0.25}),
        (mul_shift(a, 3 << 32, 32), {"a": 1.0}, {"a": 3.0}),
    ],
)
def test_partial_derivatives_by_hand(value: Expr, point: dict[str, float], expected: dict[str, float]) -> None:
    found = vector_jacobian(value, place("c"))
    words = {name: W.from_real(x) for name, x in point.items()} | {"c": W.from_real(1)}
    assert {name: float(W.to_real(evaluate(tree, W, words))) for name, tree in found.items()} == expected


@pytest.mark.parametrize("shift", [-32, -3])
def test_quotients_below_the_last_place_say_that_they_have_none(shift: int) -> None:
    # Their partials would need products shifted the other way, which are no nodes: a reason, not a broken tree.
    with pytest.raises(NoDerivative, match="quotient"):
        vector_jacobian(div_shift(a, b, shift), place("c"))


@pytest.mark.parametrize("shift", [0, 5, 32])
def test_quotients_have_derivatives_at_every_other_shift(shift: int) -> None:
    value = div_shift(a, b, shift)
    gains = vector_jacobian(value, place("c"))
    top, bottom = 2.0**40, 2.0**20 if shift == 0 else 2.0**38
    env = {"a": top, "b": bottom, "c": 2.0**36}
    words = {name: int(x) for name, x in env.items()}
    scale = 2.0**shift
    expected = {"a": env["c"] * scale / bottom, "b": -env["c"] * top * scale / bottom**2}
    for name, tree in gains.items():
        assert abs(W.signed(evaluate(tree, W, words)) - expected[name]) <= 8


@pytest.mark.parametrize("value", [a & b, a | b, a ^ b, a.shr(b), a << b, a.sar(b), ~a])
def test_bitwise_operations_have_no_derivative(value: Expr) -> None:
    with pytest.raises(NoDerivative, match=r"\w+"):
        vector_jacobian(value, place("c"))


# ---------------------------------------------------------------- one register for both operands


def run_on_registers(effects: Effects, register: Mapping[str, str], file: dict[str, int]) -> dict[str, int]:
    """Effects one after another on registers, two places perhaps in the same one: what a machine does."""
    file = dict(file)
    for effect in effects:
        env = {name: file[r] for name, r in register.items()}
        assert isinstance(effect, Update)
        tree = UPDATE_OPERATORS[effect.operator].combine(W, place(effect.place), effect.value)
        file[register[effect.place]] = evaluate(tree, W, env)
    return file


SAME = {"a": "r1", "b": "r1", "d": "r2", bar("a"): "r̄1", bar("b"): "r̄1", bar("d"): "r̄2"}


@pytest.mark.parametrize(("name", "sign"), [("fmul.add", -1), ("fmul.sub", 1)])
def test_square_accumulates_both_contributions(name: str, sign: int) -> None:
    file = {"r1": W.from_real(3), "r2": W.from_real(10), "r̄1": W.from_real(100), "r̄2": W.from_real(0.5)}
    after = run_on_registers(lift(TABLE[name], W), SAME, file)
    # d(a²)/da = 2a = 6, times d̄ = 0.5
    assert W.to_real(after["r̄1"]) == 100 + sign * 3
    assert after["r̄2"] == file["r̄2"]
    assert run_on_registers(lift(TABLE.inverse(TABLE[name]), W), SAME, after) == file


@pytest.mark.parametrize("name", ["fdiv.add", "fdiv.sub"])
def test_quotient_of_a_register_by_itself_is_flat(name: str) -> None:
    file = {"r1": W.from_real(4), "r2": W.from_real(10), "r̄1": W.from_real(100), "r̄2": W.from_real(0.5)}
    assert run_on_registers(lift(TABLE[name], W), SAME, file) == file
    # Each contribution alone is not zero: it is their sum that is.
    assert len(lift(TABLE[name], W)) == 2


# ---------------------------------------------------------------- several effects in one instruction

#: Instructions of more than one effect, as rotations and shears will be. None is in the table yet.
SEVERAL: dict[str, Effects] = {
    "two shears": (Update("d", "add", mul_shift(a, b, 32)), Update("a", "add", mul_shift(d, b, 32))),
    "three shears": (
        Update("d", "sub", mul_shift(a, b, 32)),
        Update("a", "add", mul_shift(d, b, 32)),
        Update("d", "sub", mul_shift(a, b, 32)),
    ),
    "exchange, then shear": (Exchange("d", "a"), Update("d", "add", mul_shift(a, b, 32))),
    "shear, then negate": (Update("d", "add", mul_shift(a, b, 32)), Permute("d", -d, -d, slope=-1)),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_lift_of_several_effects(name: str) -> None:
    (opcode, *_) = opcodes_of(
        Bijection("several", TABLE.free_code(), "tests", lambda w: SEVERAL[name], "", inverse_name="lareves")
    )
    rng = random.Random(9)
    for _ in range(8):
        point, bars = sample(rng, ["a", "b", "d"])
        check_lift(opcode.transition(W), lift(opcode, W), point, bars)


# ---------------------------------------------------------------- what has a derivative and what says why not


def test_what_has_a_derivative() -> None:
    expected = {
        f"{name}.{update}"
        for name in ("mov", "imm", "immhi", "fmov", "fmul", "fdiv", "fsqrt", "fabs", "ld", "st")
        for update in ("add", "sub")
    } | {"neg", "swap", "cswap", "exch", "lmov.mul", "lmov.div"}
    assert expected <= {o.name for o in DIFFERENTIABLE}


def test_what_has_none() -> None:
    names = {o.name for o in WITHOUT}
    assert {o.name for o in TABLE if o.update == "xor"} <= names
    assert {o.name for o in TABLE if isinstance(o.entry, Function) and not o.entry.differentiable} <= names
    assert {"rol", "ror", "roli", "rori", "erase", "unerase"} <= names


def check_no_derivative_says_why(opcode: Opcode) -> None:
    for w in (W, Format(8, 4)):
        with pytest.raises(NoDerivative) as caught:
            lift(opcode, w)
        assert str(caught.value).strip()


def test_no_derivative_says_why(every: Every) -> None:
    every(check_no_derivative_says_why, WITHOUT)


def check_an_opcode_and_its_inverse_both_have_a_derivative_or_neither(opcode: Opcode) -> None:
    assert has_derivative(opcode) == has_derivative(TABLE.inverse(opcode))


def test_an_opcode_and_its_inverse_both_have_a_derivative_or_neither(every: Every) -> None:
    every(check_an_opcode_and_its_inverse_both_have_a_derivative_or_neither, TABLE)


# ---------------------------------------------------------------- controls: the check can fail


def test_a_wrong_lift_is_caught() -> None:
    opcode = TABLE["fmul.add"]
    point, bars = samples(opcode, 1)[0]
    right = lift(opcode, W)
    check_lift(opcode.transition(W), right, point, bars)
    wrong_sign = inverse(right)
    swapped = (
        Update(bar("a"), "sub", mul_shift(place(bar("d")), a, 32)),
        Update(bar("b"), "sub", mul_shift(place(bar("d")), b, 32)),
    )
    for wrong in (wrong_sign, swapped, right[:1], ()):
        with pytest.raises(AssertionError):
            check_lift(opcode.transition(W), wrong, point, bars)
