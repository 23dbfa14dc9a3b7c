"""Steps on shadows: for cotangents what the machine does in differentiation mode, for tangents the transpose of it.

    x̄' = J⁻ᵀ x̄,  ẋ' = J ẋ   so that   ⟨x̄', ẋ'⟩ = ⟨x̄, ẋ⟩

The pairing is exact where shadows are rational numbers and words are what the machine has, all roundings included.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.compiler.derivatives.accumulators import (
    LinearUpdate,
    SelfUpdate,
    Shadows,
    cotangents,
    tangents,
    with_shadows,
)
from retrograd.isa import points
from retrograd.isa.derivatives import NoDerivative, lift
from retrograd.isa.effects import UPDATE_OPERATORS, transition
from retrograd.isa.entries import BAR, Bijection, Function, Opcode, bar
from retrograd.isa.expr import ZERO, Expr, div_shift, evaluate, inputs, mul_round, mul_shift, place, select
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from support.real_values import real_value

Every = Callable[[Callable[[Any], None], Iterable[Any]], None]

FORMATS = (Format(64, 32), Format(32, 16), Format(16, 8), Format(8, 4))
WIDE, NARROW = FORMATS[0], FORMATS[-1]
PLACES = ("d", "a", "b", "m")


def has_derivative(opcode: Opcode) -> bool:
    try:
        lift(opcode, WIDE)
    except NoDerivative:
        return False
    return True


MOVING = [o for o in TABLE if has_derivative(o) and lift(o, WIDE)]
STILL = [o for o in TABLE if o not in MOVING]
ROTATIONS = ("rot", "irot")


# ---------------------------------------------------------------- what steps mean


def words_after(opcode: Opcode, w: Format, state: Mapping[str, int]) -> dict[str, int]:
    return {**state, **{p: evaluate(tree, w, state) for p, tree in opcode.transition(w).items()}}


def apply(shadows: Shadows, opcode: Opcode, w: Format, state: Mapping[str, int]) -> dict[str, int]:
    """The shadows after the steps, one after the other, on machine words."""
    words = words_after(opcode, w, state) if shadows.after else state
    now = {bar(p): state[bar(p)] for p in PLACES}
    for step in shadows.steps:
        match step:
            case LinearUpdate(where, operator, value):
                tree = UPDATE_OPERATORS[operator].combine(w, place(bar(where)), value)
                now[bar(where)] = evaluate(tree, w, {**words, **now})
            case SelfUpdate(own):
                seen = {**words, **{p: now[bar(p)] for p in own.writes if p != "br"}}
                now |= {bar(p): evaluate(tree, w, seen) for p, tree in own.transition(w).items()}
    return now


def exactly(root: Expr, w: Format, words: Mapping[str, int], shadows: Mapping[str, Fraction]) -> Fraction:
    """The tree over rational shadows, in which it is linear; what reads words only is a word, roundings and all.

    An operation with a shift is so as a whole, and not node by node.
    """
    known: dict[Expr, Fraction] = {}

    def value(node: Expr) -> Fraction:
        if node not in known:
            known[node] = linear(node) if inputs(node) & shadows.keys() else word(node)
        return known[node]

    def word(node: Expr) -> Fraction:
        return Fraction(w.signed(evaluate(node, w, words)))

    def linear(node: Expr) -> Fraction:
        if (shifted := points.whole(node)) is not None:
            return shifted_exactly(node, [*map(value, shifted.operands)], int(word(shifted.shift)))
        s = node.param if isinstance(node.param, int) else 0
        match node.op:
            case "input":
                return shadows[str(node.param)]
            case "select":
                return value(node.args[1 if word(node.args[0]) else 2])
        x, y = map(value, node.args)
        match node.op:
            case "add":
                return x + y
            case "sub":
                return x - y
            case "shl":
                return x * 2 ** int(y)
            case "sar":
                return x / 2 ** int(y)
            case "mulshift" | "mulround":
                return x * y / 2**s
            case "divshift" | "divround":
                return x * Fraction(2) ** s / y if y else Fraction(0)
        raise AssertionError(f"{node.op} of a shadow is not linear")

    return value(root)


def shifted_exactly(node: Expr, operands: list[Fraction], shift: int) -> Fraction:
    """A move, a product or a quotient of rational numbers with a shift."""
    made = points.whole(node)
    assert made is not None
    if len(operands) == 2 and node in (points.quotient(*made.operands, w, made.shift).value for w in (WIDE, NARROW)):
        return operands[0] * Fraction(2) ** shift / operands[1] if operands[1] else Fraction(0)
    return (
        operands[0] * Fraction(2) ** shift if len(operands) == 1 else operands[0] * operands[1] / Fraction(2) ** shift
    )


def apply_exactly(
    shadows: Shadows, opcode: Opcode, w: Format, words: Mapping[str, int], before: Mapping[str, Fraction]
) -> dict[str, Fraction]:
    """The shadows after the steps, rational numbers."""
    seen = words_after(opcode, w, words) if shadows.after else words
    now = dict(before)
    for step in shadows.steps:
        match step:
            case LinearUpdate(where, operator, value):
                gain = exactly(value, w, seen, {bar(s): now[bar(s)] for s in step.sources})
                now[bar(where)] += gain if operator == "add" else -gain
            case SelfUpdate(own):
                written = [p for p in own.writes if p != "br"]
                for effect in own.effects(w):
                    moved = {p: now[bar(p)] for p in written}
                    now |= {bar(p): exactly(tree, w, seen, moved) for p, tree in transition([effect], w).items()}
    return now


def random_state(rng: random.Random, w: Format, opcode: Opcode | None = None) -> dict[str, int]:
    """Words and shadows of random lengths, so that small numbers and kinks are met.

    The constant is one that the opcode takes.
    """
    legal = None if opcode is None else opcode.constants(w)

    def word() -> int:
        return w.wrap(rng.choice((1, -1)) * rng.getrandbits(rng.randint(0, w.width)))

    imm = word() if legal is None else w.wrap(rng.choice(legal))
    return {p: word() for p in (*PLACES, *map(bar, PLACES))} | {"imm": imm, "br": 0}


# ---------------------------------------------------------------- cotangents: what the machine does


def check_cotangents(opcode: Opcode, w: Format, state: Mapping[str, int]) -> None:
    moved = transition(lift(opcode, w), w)
    expected = {bar(p): state[bar(p)] for p in PLACES} | {p: evaluate(t, w, state) for p, t in moved.items()}
    assert apply(cotangents(opcode, w), opcode, w, state) == expected


@pytest.mark.parametrize("opcode", MOVING, ids=lambda o: o.name)
def test_steps_are_the_lift_at_eight_bits(opcode: Opcode) -> None:
    rng = random.Random(opcode.code)
    for _ in range(40):
        check_cotangents(opcode, NARROW, random_state(rng, NARROW, opcode))


@settings(max_examples=120)
@given(st.sampled_from(MOVING), st.sampled_from(FORMATS), st.randoms(use_true_random=False))
def test_steps_are_the_lift_at_every_width(opcode: Opcode, w: Format, rng: random.Random) -> None:
    check_cotangents(opcode, w, random_state(rng, w, opcode))


# ---------------------------------------------------------------- tangents: the transpose


def check_pairing(opcode: Opcode, w: Format, rng: random.Random) -> None:
    """⟨x̄', ẋ'⟩ = ⟨x̄, ẋ⟩, each moved as its steps say."""
    words = random_state(rng, w, opcode)
    one, other = ({bar(p): Fraction(rng.randint(-9, 9), rng.randint(1, 9)) for p in PLACES} for _ in range(2))
    bars = apply_exactly(cotangents(opcode, w), opcode, w, words, one)
    dots = apply_exactly(tangents(opcode, w), opcode, w, words, other)
    assert pairing(bars, dots) == pairing(one, other), (opcode, words)


def pairing(x: Mapping[str, Fraction], y: Mapping[str, Fraction]) -> Fraction:
    return sum((x[p] * y[p] for p in x), Fraction(0))


@pytest.mark.parametrize("opcode", [o for o in MOVING if o.name not in ROTATIONS], ids=lambda o: o.name)
def test_pairing_of_cotangents_with_tangents_is_kept(opcode: Opcode) -> None:
    rng = random.Random(opcode.code)
    for w in (WIDE, NARROW):
        for _ in range(4):
            check_pairing(opcode, w, rng)


@pytest.mark.parametrize("name", ROTATIONS)
def test_pairing_is_kept_by_rotations_but_for_the_last_places(name: str) -> None:
    """Their shadows are rotated by the opcode itself, which rounds."""
    rng = random.Random(1)
    w, opcode = WIDE, TABLE[name]
    for _ in range(20):
        state = {p: w.from_real(rng.uniform(-3, 3)) for p in PLACES} | {"imm": 0, "br": 0}
        one, other = ({bar(p): w.from_real(rng.uniform(-2, 2)) for p in PLACES} for _ in range(2))
        bars = apply(cotangents(opcode, w), opcode, w, state | one)
        dots = apply(tangents(opcode, w), opcode, w, state | other)
        before, after = (
            pairing(*({p: Fraction(w.to_real(word)) for p, word in x.items()} for x in pair))
            for pair in ((one, other), (bars, dots))
        )
        assert abs(after - before) < Fraction(1 << 8, 1 << w.frac)


@pytest.mark.parametrize("opcode", MOVING, ids=lambda o: o.name)
def test_tangents_of_the_inverse_undo_the_tangents(opcode: Opcode) -> None:
    """Bit for bit, at any width: so a program with tangents is reversible."""
    rng = random.Random(opcode.code)
    undo = TABLE.inverse(opcode)
    for w in (WIDE, NARROW):
        for _ in range(10):
            state = random_state(rng, w, opcode)
            after = {**words_after(opcode, w, state), **apply(tangents(opcode, w), opcode, w, state)}
            restored = apply(tangents(undo, w), undo, w, after)
            assert restored == {bar(p): state[bar(p)] for p in PLACES}


def is_named(opcode: Opcode) -> bool:
    """Whether its derivative is stated by hand: then its tree has no meaning over real numbers."""
    return (opcode.entry.partials if isinstance(opcode.entry, Function) else opcode.entry.lift) is not None


#: What is bitwise on words and affine on the numbers that they stand for.
AFFINE: dict[str, Callable[[dict[str, float]], dict[str, float]]] = {
    "not": lambda x: {"d": -x["d"] - 1},
    "lmov.mul": lambda x: {"d": x["d"] + x["a"]},
    "lmov.div": lambda x: {"d": x["d"] - x["a"]},
}


def real_after(opcode: Opcode, point: dict[str, float]) -> dict[str, float]:
    if opcode.name in AFFINE:
        return {**point, **AFFINE[opcode.name](point)}
    return {**point, **{p: real_value(tree, WIDE, point) for p, tree in opcode.transition(WIDE).items()}}


@pytest.mark.parametrize("opcode", [o for o in MOVING if not is_named(o)], ids=lambda o: o.name)
def test_tangents_are_differences_of_the_effects(opcode: Opcode) -> None:
    """ẋ' = (T(x + hẋ) − T(x − hẋ)) / 2h, over the real numbers."""
    rng = random.Random(opcode.code)
    one, step = float(1 << WIDE.frac), 2.0**-18
    for _ in range(10):
        point = {p: rng.uniform(1, 4) * one * rng.choice((1, -1)) for p in PLACES} | {"imm": 3.0, "br": 0.0}
        if opcode.entry.name == "fsqrt":
            point["a"] = abs(point["a"])
        dots = {p: rng.uniform(-2, 2) * one for p in PLACES}
        if opcode.name == "cswap":
            dots["b"] = 0.0
        high, low = (real_after(opcode, point | {p: point[p] + h * dots[p] for p in PLACES}) for h in (step, -step))
        state = {p: WIDE.wrap(round(x)) for p, x in (point | {bar(p): x for p, x in dots.items()}).items()}
        found = apply(tangents(opcode, WIDE), opcode, WIDE, state)
        for p in PLACES:
            slope = (high[p] - low[p]) / (2 * step)
            assert WIDE.signed(found[bar(p)]) == pytest.approx(slope, rel=1e-6, abs=2e-6 * one), (p, point)


@pytest.mark.parametrize("name", ROTATIONS)
def test_tangents_of_rotations(name: str) -> None:
    """(d', a') = R(±b)(d, a): turned as the point is, and ḃ moves them across it."""
    rng = random.Random(1)
    sign = 1 if name == "rot" else -1
    for _ in range(20):
        point = {p: rng.uniform(-3, 3) for p in PLACES}
        dots = {p: rng.uniform(-2, 2) for p in PLACES}
        state = {p: WIDE.from_real(x) for p, x in point.items()} | {bar(p): WIDE.from_real(x) for p, x in dots.items()}
        found = apply(tangents(TABLE[name], WIDE), TABLE[name], WIDE, state | {"imm": 0, "br": 0})
        turn = complex(math.cos(point["b"]), sign * math.sin(point["b"]))
        velocity = turn * (complex(dots["d"], dots["a"]) + 1j * sign * dots["b"] * complex(point["d"], point["a"]))
        assert float(WIDE.to_real(found[bar("d")])) == pytest.approx(velocity.real, abs=1e-7)
        assert float(WIDE.to_real(found[bar("a")])) == pytest.approx(velocity.imag, abs=1e-7)
        assert found[bar("b")] == state[bar("b")]


# ---------------------------------------------------------------- what steps look like


def check_without_a_derivative_there_are_no_steps(opcode: Opcode) -> None:
    for w in FORMATS:
        assert cotangents(opcode, w) == tangents(opcode, w) == Shadows()


def test_without_a_derivative_there_are_no_steps(every: Every) -> None:
    every(check_without_a_derivative_there_are_no_steps, STILL)


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_every_step_reads_what_it_names(w: Format) -> None:
    """A gain reads the shadows of its sources and no others, is linear in them, and does not read its place's."""
    for opcode in MOVING:
        for table in (cotangents, tangents):
            shadows = table(opcode, w)
            assert shadows.steps, opcode
            for step in shadows.steps:
                if isinstance(step, SelfUpdate):
                    assert isinstance(step.opcode.entry, Bijection)
                    continue
                read = {name.removesuffix(BAR) for name in inputs(step.value) if name.endswith(BAR)}
                assert read == set(step.sources), (opcode, step)
                assert step.place not in read
                nothing = with_shadows(step.value, {bar(s): ZERO for s in step.sources})
                assert nothing is ZERO, (opcode, step)


def test_steps_by_hand() -> None:
    a, b, da, dd = place("a"), place("b"), place(bar("a")), place(bar("d"))
    product = cotangents(TABLE["fmul.add"], WIDE)
    assert set(product.steps) == {
        LinearUpdate("a", "sub", mul_round(dd, b, 32), ("d",)),
        LinearUpdate("b", "sub", mul_round(dd, a, 32), ("d",)),
    }
    assert set(tangents(TABLE["fmul.add"], WIDE).steps) == {
        LinearUpdate("d", "add", mul_round(da, b, 32), ("a",)),
        LinearUpdate("d", "add", mul_round(place(bar("b")), a, 32), ("b",)),
    }
    assert tangents(TABLE["st.sub"], WIDE).steps == (LinearUpdate("m", "sub", place(bar("b")), ("b",)),)
    assert tangents(TABLE["exch"], WIDE).steps == cotangents(TABLE["exch"], WIDE).steps == (SelfUpdate(TABLE["exch"]),)
    assert cotangents(TABLE["not"], WIDE).steps == (SelfUpdate(TABLE["neg"]),)
    turned = cotangents(TABLE["rot"], WIDE)
    assert turned.after
    assert turned.steps[0] == SelfUpdate(TABLE["rot"])


# ---------------------------------------------------------------- shadows replaced in trees

_words = st.sampled_from([place("a"), place("b"), place("imm")])
_linear = st.recursive(
    st.sampled_from([place(bar("a")), place(bar("b")), place(bar("d")), ZERO]),
    lambda inner: st.one_of(
        st.builds(lambda x, y: x + y, inner, inner),
        st.builds(lambda x, y: x - y, inner, inner),
        st.builds(lambda x, y: mul_shift(x, y, 4), inner, _words),
        st.builds(lambda x, y: div_shift(x, y, 4), inner, _words),
        st.builds(lambda x, n: x.sar(n), inner, st.integers(0, 3)),
        st.builds(lambda x, n: x << n, inner, st.integers(0, 3)),
        st.builds(lambda c, x, y: select(c.lt(0), x, y), _words, inner, inner),
    ),
    max_leaves=12,
)


@settings(max_examples=80)
@given(_linear, st.sets(st.sampled_from(("a", "b", "d"))), st.randoms(use_true_random=False))
def test_leaving_out_zeros_changes_no_word(tree: Expr, zeros: set[str], rng: random.Random) -> None:
    """with_shadows(t, x̄ = 0) is t where x̄ = 0, and reads x̄ no more."""
    short = with_shadows(tree, {bar(p): ZERO for p in zeros})
    assert inputs(short).isdisjoint({bar(p) for p in zeros})
    for _ in range(5):
        state = random_state(rng, NARROW) | {bar(p): 0 for p in zeros}
        assert evaluate(short, NARROW, state) == evaluate(tree, NARROW, state)


# ---------------------------------------------------------------- controls: the checks can fail


@pytest.mark.parametrize("wrong", ["sign", "partial", "missing"])
def test_a_wrong_step_is_caught(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opcode = TABLE["fmul.add"]
    right = cotangents(opcode, WIDE)
    first, *rest = right.steps
    assert isinstance(first, LinearUpdate)
    planted = {
        "sign": (LinearUpdate(first.place, "add", first.value, first.sources), *rest),
        "partial": (
            LinearUpdate(first.place, first.operator, mul_shift(place(bar("d")), place("d"), 32), ("d",)),
            *rest,
        ),
        "missing": tuple(rest),
    }[wrong]
    monkeypatch.setitem(globals(), "cotangents", lambda o, w: Shadows(planted))
    rng = random.Random(2)
    with pytest.raises(AssertionError):
        check_cotangents(opcode, WIDE, random_state(rng, WIDE))
    with pytest.raises(AssertionError):
        check_pairing(opcode, WIDE, rng)
