"""Operations between numbers with points of their own, against rationals; their forms for a known constant."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import floor, isqrt

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.assembler.verify import verify
from retrograd.isa import derivatives, points
from retrograd.isa.diagnostics import VerificationError
from retrograd.isa.effects import Update
from retrograd.isa.entries import bar
from retrograd.isa.expr import ONE, Expr, evaluate, place, substitute
from retrograd.isa.folds import emit
from retrograd.isa.laws import compile_execute, places_of
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

NAMES = ("fmovp", "fmulp", "fdivp", "fsqrtp")
HALF = Fraction(1, 2)


def expected(name: str, a: int, b: int, e: int) -> int | None:
    """The nearest integer, ties up; None where there is none."""
    match name:
        case "fmovp":
            return floor(a * Fraction(2) ** e + HALF)
        case "fmulp":
            return floor(Fraction(a * b, 2**e) + HALF)
        case "fdivp" if b:
            return floor(Fraction(a * 2**e, b) + HALF)
        case "fsqrtp" if a >= 0:
            return (isqrt(a << 2 * e + 2) + 1) // 2
    return None


def shifts(name: str, w: Format) -> range:
    legal = TABLE[f"{name}.add"].constants(w)
    assert legal is not None
    return legal


def samples(width: int, shifts: range, count: int = 4000) -> Iterator[tuple[int, int, int]]:
    """Words a, b of all lengths and signs, the extremes among them, and legal shifts; all words at 4 bits."""
    if width == 4:
        yield from product(range(16), range(16), shifts)
        return
    rng = random.Random(width)
    mask = (1 << width) - 1
    extremes = (0, 1, mask, 1 << width - 1, (1 << width - 1) - 1)
    for _ in range(count):
        a, b = (rng.choice((x, -x)) & mask for x in (rng.getrandbits(rng.randint(1, width)) for _ in range(2)))
        a = rng.choice(extremes) if rng.random() < 0.1 else a
        b = rng.choice(extremes) if rng.random() < 0.1 else b
        yield a, b, rng.choice(shifts)


@pytest.mark.parametrize("width", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("name", NAMES)
def test_nearest_or_a_trap(name: str, width: int) -> None:
    w = Format(width, width // 2)
    opcode = TABLE[f"{name}.add"]
    places = places_of(opcode)
    run = compile_execute(opcode, w, places, ("always", "overflow"))
    right = 0
    for a, b, e in samples(width, shifts(name, w)):
        state = {"a": a, "b": b, "imm": e & w.mask, "d": 0, "br": 0}
        value = expected(name, w.signed(a), w.signed(b), e)
        after = run(*(state[p] for p in places))
        if value is None or not -w.sign <= value < w.sign:
            assert isinstance(after, str), (a, b, e, after)
        else:
            assert not isinstance(after, str), (a, b, e, after)
            assert w.signed(after[places.index("d")]) == value, (a, b, e)
            right += 1
    assert right > 30


@pytest.mark.parametrize(("name", "sign"), [("fmulp", -1), ("fdivp", 1)])
def test_a_product_or_quotient_with_a_power_of_two_is_a_move(name: str, sign: int) -> None:
    """All words at 8 bits, traps included, and the share of x in its cotangent: as `reduce_strength` replaces them."""
    w = Format(8, 4)
    runs = []
    for opcode in (TABLE[f"{name}.add"], TABLE["fmovp.add"]):
        assert opcode.entry.partials is not None
        share = opcode.entry.partials(w, Expr("input", (), "d\u0304"))["a"]
        runs.append(compiled([opcode.entry.value(w), share, *(g.predicate for g in opcode.guards(w)[1:])], w))
    for e, k, x in product(shifts(name, w), range(7), range(256)):
        by = sign * (e - k)
        if by in shifts("fmovp", w):
            one, other = (run(x, 1 << k, i & w.mask, 0, x) for run, i in zip(runs, (e, by), strict=True))  # type: ignore[operator]
            assert all(one[2:]) == all(other[2:]), (e, k, x)
            assert one[:2] == other[:2] or not all(one[2:]), (e, k, x)


def compiled(trees: list[Expr], w: Format) -> object:
    """The trees as a Python function of a, b, imm, d and the cotangent of d."""
    names = {p: p for p in ("a", "b", "imm", "d")} | {"d\u0304": "c"}
    statements, out = emit(trees, w, names)
    scope: dict[str, object] = {"isqrt": isqrt}
    body = "".join(f"    {line}\n" for line in statements)
    exec(f"def run(a, b, imm, d, c):\n{body}    return [{', '.join(out)}]", scope)
    return scope["run"]


@pytest.mark.parametrize("width", [4, 8, 64])
@pytest.mark.parametrize("name", NAMES)
def test_a_known_shift_changes_no_word(name: str, width: int) -> None:
    """Value, guards and derivatives with each legal constant known, or its case, against the trees that read it."""
    w = Format(width, width // 2)
    opcode = TABLE[f"{name}.add"]
    assert opcode.entry.partials is not None
    roots = [opcode.entry.value(w), *(g.predicate for g in opcode.guards(w)[1:])]
    roots += opcode.entry.partials(w, Expr("input", (), "d\u0304")).values()
    general = compiled(roots, w)
    conditions = points.conditions(roots[0])
    cases: dict[tuple[int, ...], object] = {}
    rng = random.Random(7)
    legal = shifts(name, w)
    plain = 0
    for e in legal:
        trees = [points.at(root, e, w) for root in roots]
        plain += trees[0].op in ("mulround", "divround", "sqrtround")
        known = compiled(trees, w)
        case = tuple(bool(evaluate(c, w, {"imm": e})) for c in conditions)
        if case not in cases:
            cases[case] = compiled([points.case(root, dict(zip(conditions, case, strict=True))) for root in roots], w)
        for a, b, d, c in _words(rng, width, 1500 if width == 4 else 40):
            # Shares of a quotient are taken where the quotient is a word: elsewhere the instruction traps before.
            state = (a, b, e & w.mask, d, c)
            value = expected(name, w.signed(a), w.signed(b), e)
            fits = value is not None and -w.sign <= value < w.sign
            one, other = general(*state), known(*state)  # type: ignore[operator]
            assert one == cases[case](*state), (e, a, b, d, c)  # type: ignore[operator]
            shown = slice(None) if fits else slice(0, len(opcode.guards(w)))
            assert one[shown] == other[shown], (e, a, b, d, c)
    assert len(cases) == {"fmovp": 2, "fmulp": 4}.get(name, 1)
    # A product shifted by more than W places is a floor and the bit below it.
    assert plain == {"fmovp": 0, "fmulp": width + 1}.get(name, len(legal))


def _words(rng: random.Random, width: int, count: int) -> Iterator[tuple[int, ...]]:
    for _ in range(count):
        yield tuple(rng.getrandbits(rng.randint(1, width)) for _ in range(4))


@pytest.mark.parametrize("width", [4, 8, 64])
def test_an_operation_is_recognised_by_its_form(width: int) -> None:
    """A tree that substitution makes is known as one that the functions make, whatever was made before."""
    w = Format(width, width // 2)
    fresh = {name: place(f"{name} of a test") for name in "abc"}
    x, y, z = fresh.values()
    for made in (points.move(x, w), points.product(x, y, w), points.quotient(x, y, w), points.root(x, w)):
        for tree in {made.value, made.fits} - {ONE}:
            other = substitute(tree, {f"{name} of a test": y + z for name in "ab"})
            found = points.whole(other)
            assert found is not None
            assert other in (found.value, found.fits)
            assert [*found.operands] == [y + z for _ in made.operands]
            assert points.whole(substitute(tree, {"imm": z})) is None


@pytest.mark.parametrize("w", [Format(8, 4), Format()])
def test_what_fits_does_not_depend_on_the_order_of_substitution(w: Format) -> None:
    """Where both operands are one register, the test that a share of the cotangent fits is that for two registers."""
    one = {"b": place("a"), bar("b"): place(bar("a"))}
    seen = 0
    for name in NAMES:
        for update in derivatives.lift(TABLE[f"{name}.add"], w):
            assert isinstance(update, Update)
            fits = derivatives._parts_fit(update.value, w)
            assert derivatives._parts_fit(substitute(update.value, one), w) is substitute(fits, one), name
            seen += 1
    assert seen == 6


def test_the_verifier_refuses_other_shifts() -> None:
    text = "start\n{} r1, r2{}, {}\nfinish\n"
    for name in NAMES:
        third = ", r3" if name in ("fmulp", "fdivp") else ""
        legal = shifts(name, Format())
        for shift in (legal[0] - 1, legal[-1] + 1):
            with pytest.raises(VerificationError, match=rf"RG0212.*{legal[0]} to {legal[-1]}"):
                verify(assemble(text.format(f"{name}.sub", third, shift)))
        for shift in (legal[0], legal[-1]):
            verify(assemble(text.format(f"{name}.sub", third, shift)))
