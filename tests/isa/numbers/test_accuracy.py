"""The error of every function against mpmath: at most one unit in the last place.

Points are chosen where errors are likely: the ends of the domain, both sides of every segment of the tables,
powers of two, and words of every length. tools/measure_numbers.py measures the same on far more points.
Rotations are in test_rotation.py.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numba import get_num_threads, njit, prange
from retrograd.isa import functions
from retrograd.isa.folds import emit
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

Q32, Q16 = Format(64, 32), Format(32, 16)
#: formats at the ends of what is available, for every width
OTHERS = [Format(*f) for f in ((8, 4), (16, 4), (16, 7), (16, 8), (16, 12), (32, 4), (32, 9), (32, 28))]
OTHERS += [Format(64, f) for f in (4, 7, 16, 48, 60)]

Draw = Callable[[Format, random.Random, int], Iterable[int]]
Pairs = Iterable[tuple[int, int]]


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    with mp.workprec(220):
        yield


# ------------------------------------------------------------------ points


def any_word(rng: random.Random, w: Format) -> int:
    """A signed word, every other one of a random length."""
    return rng.randrange(-w.sign, w.sign) >> (rng.randrange(w.width) if rng.random() < 0.5 else 0)


def around(values: Iterable[Any]) -> list[int]:
    """The words on both sides of each number."""
    return [int(mp.floor(v)) + i for v in values for i in (0, 1)]


def powers_of_two(w: Format) -> list[int]:
    return [s * (1 << n) + i for n in range(w.width) for s in (1, -1) for i in (-1, 0, 1) if n < w.width - 1]


def ends(w: Format) -> list[int]:
    return [-w.sign, -w.sign + 1, -1, 0, 1, w.sign - 2, w.sign - 1]


def exponents(unit: Callable[[], Any]) -> Draw:
    """Arguments of a power of two, `unit` the argument that doubles it: every segment's edge, the range and its end."""

    def draw(w: Format, rng: random.Random, count: int) -> Iterable[int]:
        one, k = unit() * (1 << w.frac), 1 << functions.index_bits(w)
        low, high = -w.frac - 2, w.width - 1 - w.frac
        out = around((e + (j + mp.mpf(1) / 2) / k) * one for e in (low, -1, 0, high - 1) for j in range(k))
        out += [*around([high * one]), 0, 1, -1]
        first, last = int(low * one), int(high * one)
        out += [rng.randint(first, last) if i % 3 else last - rng.randrange(int(one)) for i in range(count)]
        return (x for x in out if -w.sign // 2 <= x < w.sign // 2)

    return draw


def mantissas(w: Format, rng: random.Random, count: int) -> Iterable[int]:
    """Arguments of a logarithm or a root: every segment's edge at several exponents, words of every length."""
    k = functions.index_bits(w)
    at = sorted({k + 1, w.frac - 1, w.frac, w.frac + 1, w.width - 2})
    edges = [(((1 << k) + j) << (e - k)) + i for e in at if e >= k for j in range(1 << k) for i in (-1, 0, 1)]
    out = [x for x in edges if x < w.sign]
    return out + powers_of_two(w) + ends(w) + [any_word(rng, w) for _ in range(count)]


def angles(w: Format, rng: random.Random, count: int) -> Iterable[int]:
    """Angles: ends and middles of every segment of a turn, in the first and in the last; 0; the largest words."""
    k, turn = 4 << functions.index_bits(w), 2 * mp.pi * (1 << w.frac)
    out = around((n + mp.mpf(j) / (2 * k)) * turn for n in (0, -int(w.sign / turn)) for j in range(2 * k))
    out += [s * (w.sign - 1 - rng.randrange(1 << w.width // 2)) for _ in range(count // 6) for s in (1, -1)]
    out += powers_of_two(w) + ends(w) + [any_word(rng, w) for _ in range(count)]
    return (x for x in out if -w.sign <= x < w.sign)


def vectors(w: Format, rng: random.Random, count: int) -> Pairs:
    """Pairs: words of every length, near the slopes of a table and halfway between them, the axes and the corners."""
    k = 2 << functions.index_bits(w)
    for i in range(count):
        x, y = any_word(rng, w), any_word(rng, w)
        if i % 2:
            y = max(-w.sign, min(w.sign - 1, x * rng.randrange(-k, k + 1) // k + rng.randrange(-2, 3)))
        yield (x, y) if i % 4 < 2 else (y, x)
    for x in (*ends(w), 1 << w.frac, w.sign // 2):
        yield from ((x, y) for y in (*ends(w), 1 << w.frac, w.sign // 2))


def a_lognum(w: Format, rng: random.Random, log: int) -> int:
    return rng.choice((0, w.sign)) | (log & (w.sign - 1))


def lognum_pairs(w: Format, rng: random.Random, count: int) -> Pairs:
    """Logarithms that differ by every kind of d: tiny, at segments' edges, up to where nothing more is added."""
    one, k = 1 << w.frac, functions.index_bits(w)
    room = w.sign // 4 - 1
    differences = [d for j in range(4 << k) for d in around([mp.mpf(j) * one / (2 << k)])]
    differences += list(range(-64, 65)) + [s * (one >> k) + i for i in range(-8, 9) for s in (1, -1)]
    for i in range(count):
        far = rng.randrange(-3 * w.width * one, 3 * w.width * one)
        differences.append(far if i % 2 else far >> rng.randrange(w.width))
    for d in differences:
        x = rng.randrange(-room, room) >> rng.randrange(w.width)
        if -2 * room < x + d < 2 * room:
            yield a_lognum(w, rng, x), a_lognum(w, rng, x + d)


def one_operand(draw: Draw) -> Callable[[Format, random.Random, int], Pairs]:
    return lambda w, rng, count: ((x, 0) for x in draw(w, rng, count))


def lognums(draw: Draw) -> Callable[[Format, random.Random, int], Pairs]:
    return lambda w, rng, count: ((a_lognum(w, rng, x), 0) for x in draw(w, rng, count))


# ------------------------------------------------------------------ what is right


def log_of(w: Format, word: int) -> int:
    low = word & (w.sign - 1)
    return low - w.sign if low & (w.sign >> 1) else low


def number(w: Format, word: int) -> Any:
    """The number that a lognum stands for."""
    return mp.power(2, mp.mpf(log_of(w, word)) / (1 << w.frac)) * (-1 if word & w.sign else 1)


@dataclass(frozen=True)
class Case:
    """A function, where it is tried, and its true value from the operands."""

    name: str
    points: Callable[[Format, random.Random, int], Pairs]
    truth: Callable[..., Any]
    #: whether the operands, and the result, are lognums
    from_lognum: bool = False
    to_lognum: bool = False

    def true_units(self, w: Format, x: int, y: int) -> Any:
        """The value in units of the last place, of a lognum its logarithm's; its sign is checked here."""
        one = 1 << w.frac
        if self.from_lognum:
            value = self.truth(number(w, x), number(w, y))
        else:
            value = self.truth(mp.mpf(x) / one, mp.mpf(y) / one)
        return (mp.log(abs(value), 2) if self.to_lognum else value) * one


CASES = [
    Case("fexp.add", one_operand(exponents(lambda: mp.log(2))), lambda x, y: mp.exp(x)),
    Case("flog.add", one_operand(mantissas), lambda x, y: mp.log(x)),
    Case("fsqrt.add", one_operand(mantissas), lambda x, y: mp.sqrt(x)),
    Case("fsin.add", one_operand(angles), lambda x, y: mp.sin(x)),
    Case("fcos.add", one_operand(angles), lambda x, y: mp.cos(x)),
    Case("fatan2.add", vectors, mp.atan2),
    Case("fdiv.add", vectors, lambda x, y: x / y),
    Case("ltof.add", lognums(exponents(lambda: mp.mpf(1))), lambda x, y: x, from_lognum=True),
    Case("ftol.mul", one_operand(mantissas), lambda x, y: x, to_lognum=True),
    Case("ladd.mul", lognum_pairs, lambda x, y: x + y, from_lognum=True, to_lognum=True),
    Case("lsub.mul", lognum_pairs, lambda x, y: x - y, from_lognum=True, to_lognum=True),
]


# ------------------------------------------------------------------ what is computed


def compile_value(name: str, w: Format) -> Callable[[int, int], tuple[int, ...]]:
    """(a, b) -> the target's word from 0, then 1 or 0 for each guard that must hold always, then for the others."""
    opcode = TABLE[name]
    guards = [g for g in opcode.guards(w) if g.mode == "always" and g.code != "RG0405"]
    checks = [g for g in opcode.guards(w) if g.mode == "overflow"]
    roots = [opcode.transition(w)["d"]] + [opcode.guard_predicate(g, w) for g in guards + checks]
    statements, (value, *holds) = emit(roots, w, {"a": "a", "b": "b", "d": "0"})
    domain, fits = holds[: len(guards)], holds[len(guards) :]
    body = [*statements, f"return {value}, {' and '.join(domain) or 1}, {' and '.join(fits) or 1}"]
    scope: dict[str, Any] = {}
    exec("def run(a, b):\n" + "".join(f"    {line}\n" for line in body), {"isqrt": math.isqrt}, scope)
    return scope["run"]  # type: ignore[no-any-return]


def error(case: Case, w: Format, x: int, y: int, run: Callable[[int, int], tuple[int, ...]]) -> Any:
    """In units of the last place; None where the function has no value and traps.

    Where overflow is reported, the error is how far inside the format the true value lies, if it does.
    """
    word, in_domain, fits = run(x & w.mask, y & w.mask)
    if not in_domain:
        return None
    truth = case.true_units(w, x, y)
    limit = w.sign // 2 if case.to_lognum else w.sign
    if not fits:
        return max(mp.mpf(0), min(limit - truth, truth + limit))
    return abs((log_of(w, word) if case.to_lognum else w.signed(word)) - truth)


def worst(case: Case, w: Format, count: int, seed: int = 1) -> tuple[float, tuple[int, int], int]:
    """(largest error, where, on how many points), of `count` points or somewhat fewer."""
    run, rng = compile_value(case.name, w), random.Random(seed)
    found, at, tried = mp.mpf(-1), (0, 0), 0
    points = list(case.points(w, rng, count))
    for x, y in rng.sample(points, min(count, len(points))):
        e = error(case, w, x, y, run)
        if e is not None:
            tried += 1
            if e > found:
                found, at = e, (x, y)
    return float(found), at, tried


by_name = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


@by_name
@pytest.mark.parametrize("w", [Q32, Q16], ids=str)
def test_error_is_at_most_one_unit(case: Case, w: Format) -> None:
    largest, at, tried = worst(case, w, 600)
    assert tried > 300
    assert largest <= 1, at
    # An error of nothing at all would mean that the comparison compares nothing.
    assert largest > 0.4


def bound(name: str, w: Format) -> float:
    """In units. Logarithms keep room for the largest exponent: with few integer bits, some places are missing."""
    match name:
        case "flog.add" | "ftol.mul" | "ladd.mul" | "lsub.mul":
            return 6.0 if w.width == 8 else max(1.0, 2.0 ** (w.frac - w.width + 10))
        case "fatan2.add" if w.frac > w.width - 6:
            return 2.0 ** (w.frac - w.width + 5)
    return 1.0


def test_where_the_bound_is_one_unit() -> None:
    names = [case.name for case in CASES]
    assert all(bound(name, w) == 1 for name in names for w in (Q32, Q16, Format(64, 54), Format(32, 22), Format(16, 4)))
    assert bound("ladd.mul", Format(64, 55)) == bound("fatan2.add", Format(32, 28)) == 2


@by_name
@pytest.mark.parametrize("w", OTHERS, ids=str)
def test_error_in_other_formats(case: Case, w: Format) -> None:
    largest, at, tried = worst(case, w, 150)
    assert tried > 60
    assert largest <= bound(case.name, w), at


@pytest.mark.parametrize("name", ["fsin.add", "fcos.add"])
def test_the_largest_angles(name: str) -> None:
    """Near ±2^31 radians the reduction takes away 2^29 turns: what is left must still be right to the last place."""
    case = next(c for c in CASES if c.name == name)
    run = compile_value(name, Q32)
    rng = random.Random(5)
    near_end = [s * (Q32.sign - 1 - (rng.getrandbits(62) >> rng.randrange(62))) for s in (1, -1) for _ in range(500)]
    # Angles that are nearest to a multiple of a quarter turn, from the continued fraction of π/2·2^32.
    quarter, nearest = mp.pi / 2 * (1 << 32), []
    p, q, x = (1, 0), (0, 1), quarter
    while p[0] < Q32.sign:
        n = int(mp.floor(x))
        p, q, x = (n * p[0] + p[1], p[0]), (n * q[0] + q[1], q[0]), 1 / (x - n)
        nearest += [s * m * p[0] for m in (1, 2, 3) for s in (1, -1) if m * p[0] < Q32.sign]
    assert min(abs(v - quarter * mp.nint(v / quarter)) for v in map(mp.mpf, nearest)) < 2**-20
    for angle in [*near_end, *nearest, -Q32.sign, Q32.sign - 1]:
        assert error(case, Q32, angle, 0, run) <= 1, angle


def test_signs_of_lognums() -> None:
    rng = random.Random(7)
    for w in (Q32, Q16):
        for name, sign in (("ladd.mul", 0), ("lsub.mul", w.sign)):
            run = compile_value(name, w)
            for x, y in lognum_pairs(w, rng, 500):
                word, in_domain, _ = run(x, y)
                if in_domain:
                    larger = x if log_of(w, x) >= log_of(w, y) else y ^ sign
                    assert word & w.sign == larger & w.sign, (x, y)
        to_lognum, to_fixed = compile_value("ftol.mul", w), compile_value("ltof.add", w)
        for x in powers_of_two(w):
            word = to_lognum(x & w.mask, 0)[0]
            assert bool(word & w.sign) == (x < 0)
            assert (x == 0) or (w.signed(to_fixed(word, 0)[0]) < 0) == (x < 0)


def test_exact_values() -> None:
    """Arguments whose value is a word: nothing may be lost there."""
    for w in (Q32, Q16):
        one = 1 << w.frac
        value = {case.name: compile_value(case.name, w) for case in CASES}
        assert value["fexp.add"](0, 0)[0] == one
        assert value["flog.add"](one, 0)[0] == 0
        assert value["fsin.add"](0, 0)[0] == 0
        assert value["fcos.add"](0, 0)[0] == one
        assert value["fatan2.add"](0, one)[0] == 0
        assert value["fatan2.add"](5, 5)[0] == round(math.pi / 4 * one)
        assert value["fatan2.add"](0, w.sign)[0] == round(math.pi * one)
        for n in range(-w.frac, w.width - 1 - w.frac):
            assert value["ltof.add"](n * one & (w.sign - 1), 0)[0] == 2 ** (n + w.frac)
            assert log_of(w, value["ftol.mul"](2 ** (n + w.frac), 0)[0]) == n * one
        for n in range(180):
            assert value["fsqrt.add"](n * n * one, 0)[0] == n * one


# ------------------------------------------------------------------ the long tier


@pytest.mark.long
@by_name
def test_error_at_100_000_points(case: Case) -> None:
    largest, at, tried = worst(case, Q32, 100_000, seed=2)
    assert tried > 90_000 or case.name in ("flog.add", "fsqrt.add", "fdiv.add")
    assert tried > 40_000
    assert largest <= 1, at


#: name -> (the function of a float in units of the last place of Q16.16, first argument, last argument + 1)
_ALL = {
    "fsin.add": (lambda x: math.sin(x / 65536) * 65536, -(2**31), 2**31),
    "fcos.add": (lambda x: math.cos(x / 65536) * 65536, -(2**31), 2**31),
    "flog.add": (lambda x: math.log(x / 65536) * 65536, 1, 2**31),
    # Below, all powers are 0; above, none fits: test_domains.py.
    "fexp.add": (lambda x: math.exp(x / 65536) * 65536, -14 * 65536, math.ceil(15 * math.log(2) * 65536)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", list(_ALL))
def test_every_argument_of_q16(name: str) -> None:
    """All arguments against the float64 functions of the C library, which are right to 2^-20 of a unit here."""
    reference, first, last = _ALL[name]
    statements, (value,) = emit([TABLE[name].transition(Q16)["d"]], Q16, {"a": "a", "d": "0"})
    body = [*statements, f"return {value}"]
    scope: dict[str, Any] = {}
    exec("def run(a):\n" + "".join(f"    {line}\n" for line in body), scope)
    run, true = njit(scope["run"]), njit(reference)
    sign, mask = Q16.sign, Q16.mask

    @njit(parallel=True)  # type: ignore[untyped-decorator]
    def search(errors: Any, places: Any) -> None:
        for chunk in prange(len(edges) - 1):
            for x in range(edges[chunk], edges[chunk + 1]):
                e = abs(((run(x & mask) ^ sign) - sign) - true(float(x)))
                if e > errors[chunk]:
                    errors[chunk], places[chunk] = e, x

    edges = np.linspace(first, last, 64 * get_num_threads() + 1).astype(np.int64)
    assert (edges[0], edges[-1]) == (first, last)
    errors, places = np.full(len(edges) - 1, -1.0), np.zeros(len(edges) - 1, np.int64)
    search(errors, places)
    assert errors.max() <= 1, int(places[errors.argmax()])
    assert errors.min() > 0
