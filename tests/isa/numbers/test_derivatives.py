"""What differentiation mode adds to cotangents, against central differences in mpmath.

Of a fixed-point place the cotangent is ∂L/∂x, of a lognum ∂L/∂ln|x|. An update's lift moves −c·∂f/∂a to ā for
`+=` and `×=`, c being the target's cotangent, and +c·∂f/∂a for their inverses.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import pytest
from retrograd.isa.derivatives import lift
from retrograd.isa.effects import transition
from retrograd.isa.entries import Function, bar
from retrograd.isa.expr import Expr
from retrograd.isa.folds import emit
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

FORMATS = [Format(64, 32), Format(32, 16)]
formats = pytest.mark.parametrize("w", FORMATS, ids=str)
D_BAR, A_BAR, B_BAR = bar("d"), bar("a"), bar("b")
NAMES = {"d": "d", "a": "a", "b": "b", D_BAR: "dc", A_BAR: "ac", B_BAR: "bc"}


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    with mp.workprec(300):
        yield


def compiled(trees: list[Expr], w: Format) -> Callable[..., tuple[int, ...]]:
    """(d, a, b, d̄, ā, b̄) -> the trees' words, signed."""
    statements, out = emit(trees, w, NAMES)
    scope: dict[str, Any] = {}
    body = [*statements, f"return ({', '.join(out)},)"]
    exec("def run(d, a, b, dc, ac, bc):\n" + "".join(f"    {s}\n" for s in body), {"isqrt": math.isqrt}, scope)
    run = scope["run"]
    return lambda *words: tuple(w.signed(x) for x in run(*(x & w.mask for x in words)))


def central(f: Callable[..., Any], point: list[Any], which: int) -> Any:
    h = mp.mpf(2) ** -80
    high, low = list(point), list(point)
    high[which], low[which] = point[which] + h, point[which] - h
    return (f(*high) - f(*low)) / (2 * h)


# ------------------------------------------------------------------ functions


@dataclass(frozen=True)
class Case:
    """A function of one or two numbers; of a lognum ±e^u it is a function of u, and so is its own logarithm."""

    name: str
    #: f(x, y) for fixed-point operands; f(sign of a, sign of b)(u, v) for lognums
    f: Callable[..., Any]
    #: where operands are drawn, as real numbers (of lognums: ln)
    low: float
    high: float
    operands: int = 1
    lognum: bool = False


def ln_sum(minus: int) -> Callable[..., Any]:
    def signed(p: int, q: int) -> Callable[..., Any]:
        return lambda u, v: mp.log(abs(p * mp.exp(u) + minus * q * mp.exp(v)))

    return signed


CASES = [
    Case("fexp", mp.exp, -4, 4),
    Case("flog", mp.log, 0.05, 1000),
    Case("fsin", mp.sin, -1000, 1000),
    Case("fcos", mp.cos, -1000, 1000),
    Case("fsqrt", mp.sqrt, 0.5, 1000),
    Case("fatan2", mp.atan2, -100, 100, operands=2),
    Case("fdiv", lambda x, y: x / y, -100, 100, operands=2),
    Case("ftol", lambda x: mp.log(abs(x)), -1000, 1000),
    Case("ltof", lambda p, q: lambda u: p * mp.exp(u), -4, 4, lognum=True),
    Case("ladd", ln_sum(1), -6, 6, operands=2, lognum=True),
    Case("lsub", ln_sum(-1), -6, 6, operands=2, lognum=True),
    Case("lmov", lambda p, q: lambda u: u, -1000, 1000, lognum=True),
]
by_name = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


def draw(case: Case, w: Format, rng: random.Random) -> tuple[list[int], Callable[..., Any], list[Any]]:
    """(words of a and b, the function, its arguments), well inside the domain."""
    one = 1 << w.frac
    while True:
        x = [rng.uniform(case.low, case.high) for _ in range(2)]
        if case.lognum:
            logs = [round(v / math.log(2) * one) for v in x]
            signs = [rng.choice((1, -1)) for _ in x]
            words = [(w.sign if s < 0 else 0) | (v & (w.sign - 1)) for s, v in zip(signs, logs, strict=True)]
            # The share of an operand in a sum grows without bound as the sum cancels: not in this test.
            if case.operands == 2 and abs(x[0] - x[1]) < 0.05:
                continue
            return words, case.f(*signs), [mp.mpf(v) / one * mp.log(2) for v in logs[: case.operands]]
        words = [round(v * one) for v in x]
        if min(map(abs, words[: case.operands])) > one // 64:
            return words, case.f, [mp.mpf(v) / one for v in words[: case.operands]]


def tolerance(w: Format, c: Any, gain: Any, size: Any) -> Any:
    """In words. The roundings; the function's own unit, times the cotangent; the relative error of a quotient."""
    return 3 + 2 * abs(c) + 8 * abs(gain) * max(1, 1 / size)


@formats
@by_name
def test_gains_of_operands(case: Case, w: Format) -> None:
    entry = next(e for e in TABLE.entries if e.name == case.name)
    assert isinstance(entry, Function)
    one, rng = 1 << w.frac, random.Random(case.name)
    places = [A_BAR, B_BAR][: case.operands]
    for update, sign in {"add": -1, "sub": +1, "mul": -1, "div": +1}.items():
        if update not in entry.updates:
            continue
        after = transition(lift(TABLE[f"{case.name}.{update}"], w), w)
        assert set(after) == set(places)
        run = compiled([after[p] for p in places], w)
        largest = mp.mpf(0)
        for _ in range(60):
            words, f, point = draw(case, w, rng)
            c, before = round(rng.uniform(-2, 2) * one), [round(rng.uniform(-2, 2) * one) for _ in range(2)]
            got = run(0, *words, c, *before)
            size = mp.sqrt(sum(v * v for v in point)) if case.name == "fatan2" else mp.mpf(1)
            for i in range(case.operands):
                gain = sign * mp.mpf(c) / one * central(f, point, i)
                wrong = abs(got[i] - before[i] - gain * one)
                assert wrong <= tolerance(w, mp.mpf(c) / one, gain, size), (words, c, i)
                largest = max(largest, abs(gain))
        assert largest > 0.01


@formats
@pytest.mark.parametrize("name", ["ladd", "lsub"])
def test_shares_near_cancellation(name: str, w: Format) -> None:
    """a/(a − b) as a − b vanishes: large numbers, still right to the precision of the logarithm of a − b."""
    after = transition(lift(TABLE[f"{name}.mul"], w), w)
    run = compiled([after[A_BAR], after[B_BAR]], w)
    one, rng = 1 << w.frac, random.Random(2)
    for n in range(6, w.frac - 4):
        d, x = one >> n, rng.randrange(-one, one)
        words = [x & (w.sign - 1), (x - d) & (w.sign - 1)]
        words[1] |= w.sign if name == "ladd" else 0
        share = -1 / mp.expm1(-mp.mpf(d) / one * mp.log(2))
        # Half a unit of the logarithm, ln 2 of it relative; one of ltof.
        allowed = 3 + share * 1.5
        got = run(0, *words, one, 0, 0)
        assert abs(-got[0] - share * one) <= allowed, n
        assert abs(-got[1] - (1 - share) * one) <= allowed, n


@formats
def test_shares_of_a_sum_make_one(w: Format) -> None:
    after = transition(lift(TABLE["ladd.mul"], w), w)
    run = compiled([after[A_BAR], after[B_BAR]], w)
    one, rng = 1 << w.frac, random.Random(3)
    for _ in range(300):
        a, b = (rng.randrange(-8 * one, 8 * one) & (w.sign - 1) for _ in range(2))
        # Two ltof of at most a unit each, two roundings.
        assert abs(sum(run(0, a, b, one, 0, 0)) + one) <= 5


@formats
def test_angle_of_the_axes(w: Format) -> None:
    """Where one operand is zero or both are equal, the derivative of atan2 is simple: 1/x, or halves."""
    after = transition(lift(TABLE["fatan2.add"], w), w)
    run = compiled([after[A_BAR], after[B_BAR]], w)
    one = 1 << w.frac
    for x in (one, 2 * one, -4 * one, one // 8):
        inverse = one * one // x
        for (a, b), (ga, gb) in {
            (0, x): (inverse, 0),
            (x, 0): (0, -inverse),
            (x, x): (inverse // 2, -inverse // 2),
        }.items():
            got = run(0, a, b, one, 0, 0)
            assert abs(-got[0] - ga) <= 3, (a, b)
            assert abs(-got[1] - gb) <= 3, (a, b)


# ------------------------------------------------------------------ rotation


@formats
@pytest.mark.parametrize("name", ["rot", "irot"])
def test_rotation_rotates_cotangents(name: str, w: Format) -> None:
    """x̄' = J⁻ᵀ x̄, so Jᵀ x̄' = x̄ with J by central differences: both cotangents turn, the angle's takes the rest."""
    opcode, one, rng = TABLE[name], 1 << w.frac, random.Random(name)
    after = transition(lift(opcode, w), w)
    assert set(after) == {D_BAR, A_BAR, B_BAR}
    run = compiled([after[D_BAR], after[A_BAR], after[B_BAR]], w)
    way = 1 if name == "rot" else -1

    def rotated_d(d: Any, a: Any, b: Any) -> Any:
        return d * mp.cos(b) - way * a * mp.sin(b)

    def rotated_a(d: Any, a: Any, b: Any) -> Any:
        return way * d * mp.sin(b) + a * mp.cos(b)

    moved = 0
    for _ in range(150):
        words = [round(rng.uniform(-8, 8) * one) for _ in range(3)]
        bars = [round(rng.uniform(-4, 4) * one) for _ in range(3)]
        got = [mp.mpf(x) / one for x in run(*words, *bars)]
        point = [mp.mpf(x) / one for x in words]
        for i in range(3):
            back = central(rotated_d, point, i) * got[0] + central(rotated_a, point, i) * got[1]
            back += got[2] if i == 2 else 0
            # Two units of either cotangent; in the angle's, products of those with vectors no longer than 12.
            assert abs(back * one - bars[i]) <= (4 if i < 2 else 60), (words, bars, i)
        moved += abs(got[2] * one - bars[2]) > 1000
    assert moved > 140


@formats
def test_a_quarter_turn_of_cotangents(w: Format) -> None:
    after = transition(lift(TABLE["rot"], w), w)
    run = compiled([after[D_BAR], after[A_BAR], after[B_BAR]], w)
    one = 1 << w.frac
    quarter = round(math.pi / 2 * one)
    d_bar, a_bar, b_bar = run(3 * one, 0, quarter, 5 * one, 7 * one, 0)
    assert abs(d_bar + 7 * one) <= 8
    assert abs(a_bar - 5 * one) <= 8
    # θ̄ loses d·ā − a·d̄ = 21.
    assert abs(b_bar + 21 * one) <= 60


@formats
def test_rotation_lift_is_undone_bit_for_bit(w: Format) -> None:
    rng = random.Random(12)
    run, back = ({}, {})  # type: tuple[dict[str, Any], dict[str, Any]]
    for name, into in (("rot", run), ("irot", back)):
        trees = transition(lift(TABLE[name], w), w) | TABLE[name].transition(w)
        into["f"] = compiled([trees[p] for p in ("d", "a", D_BAR, A_BAR, B_BAR)], w)
    for _ in range(500):
        state = [w.signed(rng.getrandbits(w.width)) for _ in range(6)]
        d, a, *bars = run["f"](*state)
        restored = back["f"](d, a, state[2], *bars)
        assert [*restored[:2], state[2], *restored[2:]] == state
