"""The fold of trees to LLVM IR, compiled and run: every node is the word that `evaluate` says.

Exhaustively at 4 bits, and at 8 in the full tier; at corners and at random for larger words.
"""

from __future__ import annotations

import ctypes
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from retrograd.isa.effects import UPDATE_OPERATORS
from retrograd.isa.entries import Function
from retrograd.isa.expr import (
    OPERATIONS,
    Expr,
    apply_operation,
    const,
    div_round,
    div_shift,
    evaluate,
    high_word,
    inputs,
    look_up,
    mul_round,
    mul_shift,
    nodes,
    place,
    rotate_left,
    select,
    sqrt_round,
)
from retrograd.isa.folds import quotient_tested_by
from retrograd.isa.table import TABLE
from retrograd.isa.words import WIDTHS, Format
from retrograd.simulator.engines.llvm import functions as llvm_functions
from retrograd.simulator.engines.llvm import functions as llvm_ir
from retrograd.simulator.engines.llvm.builder import I64, POINTER, VOID, Callee, ModuleBuilder, integer
from retrograd.simulator.engines.llvm.functions import ROOT_SHIFT, Trees
from retrograd.simulator.engines.llvm.jit import jit_compiler

PLACES = ("a", "b", "c")
a, b, c = (place(name) for name in PLACES)

#: a row of words for PLACES
Row = tuple[int, ...]
#: roots that one function computes from the same words, so that they may share
Group = Sequence[Expr]
#: what is asked of a root: its word, or whether that is not zero
Asked = Literal["value", "truth"]

FORMATS = [Format(4, 2), Format(8, 4), Format(16, 8), Format(32, 16), Format(64, 32), Format(64, 63)]
#: how two words are divided by one: by the host's instruction, or digit by digit
DIVISIONS = ("instruction", "digits")


def divide_of(division: str) -> tuple[str, str] | None:
    if division == "digits":
        return None
    if jit_compiler().divide is None:
        pytest.skip("this processor has no instruction that divides two words by one")
    return jit_compiler().divide


def source(
    groups: Sequence[Group],
    w: Format,
    divide: tuple[str, str] | None,
    asked: Asked = "value",
    lanes: int = 1,
    long: bool = False,
) -> str:
    """A module: rows(in, out, n) computes the roots of all groups from each of n rows, words being i64 outside.

    In lanes, a row is of vectors, and behind the roots of each group it is told in which lanes they are doubted.
    """
    module = ModuleBuilder(divide=divide)
    word, outside = integer(w.width).vector(lanes), I64.vector(lanes)
    groups_, at = [], 0
    for k, group in enumerate(groups):
        code = module.function(f"group{k}", VOID, {"in": POINTER, "out": POINTER}, "")
        given, out = (argument.of(outside) for argument in code.arguments)
        words = {name: given[i].load(8).to(word) for i, name in enumerate(PLACES)}
        trees = Trees(code, w, words, tuple(group), lanes=lanes, long=long)
        results = [trees.truth(root) if asked == "truth" else trees.value(root) for root in group]
        if lanes > 1:
            results.append(code.any(trees.unsound(), word.truth))
        for result in results:
            out[at].store(result.to(outside), 8)
            at += 1
        code.ret()
        groups_.append(code.callee)
    rows = module.function("rows", VOID, {"in": POINTER, "out": POINTER, "n": I64}, "", linkage="")
    given, out, n = rows.arguments
    with rows.loop(n) as i:
        for callee in groups_:
            rows.call(callee, given.of(I64)[i * (len(PLACES) * lanes)], out.of(I64)[i * (at * lanes)])
    rows.ret()
    return module.text()


def compiled(text: str, level: int = 2, keep: bool = True) -> Callable[[NDArray[Any], int], NDArray[Any]]:
    """(rows of words, number of roots) -> rows of results. `keep`: on disk; random trees would only fill it."""
    with pytest.MonkeyPatch.context() as patch:
        if not keep:
            patch.setenv("RETROGRAD_CACHE", "")
        address = jit_compiler().load(text, ("rows",), lambda: text, level)["rows"]
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)

    def run(rows: NDArray[Any], roots: int) -> NDArray[Any]:
        out = np.zeros((len(rows), roots), dtype=np.uint64)
        function(rows.ctypes.data, out.ctypes.data, len(rows))
        return out

    return run


def meanings(roots: Sequence[Expr], w: Format, rows: Sequence[Row]) -> dict[Expr, list[int]]:
    """tree -> its word in every row: `evaluate`, with the walk over the trees made once for all rows and roots."""
    columns = {place(name): [row[i] for row in rows] for i, name in enumerate(PLACES)}
    for node in nodes(*roots):
        if node not in columns:
            param = node.param if isinstance(node.param, int | tuple) else 0
            args = [columns[arg] for arg in node.args]
            operands: Any = zip(*args, strict=True) if args else [()] * len(rows)
            columns[node] = [apply_operation(w, node.op, param, v) for v in operands]
    return columns


def check(
    groups: Sequence[Group],
    w: Format,
    rows: Sequence[Row],
    division: str = "digits",
    level: int = 2,
    asked: Asked = "value",
    keep: bool = True,
    long: bool = False,
) -> None:
    """Compiled, every root of every group is what the definition says, in every row."""
    roots = [root for group in groups for root in group]
    rows = [(*row, *[0] * (len(PLACES) - len(row))) for row in rows]
    run = compiled(source(groups, w, divide_of(division), asked, long=long), level, keep)
    found = run(np.array(rows, dtype=np.uint64), len(roots)).T.tolist()
    columns = meanings(roots, w, rows)
    for root, words in zip(roots, found, strict=True):
        expected = columns[root]
        assert expected[0] == evaluate(root, w, dict(zip(PLACES, rows[0], strict=True)))
        if asked == "truth":
            expected = [int(word != 0) for word in expected]
        if words != expected:
            at = next(i for i, (x, y) in enumerate(zip(words, expected, strict=True)) if x != y)
            pytest.fail(f"{w}, {root}, {rows[at]}: {words[at]:#x} instead of {expected[at]:#x}")


def check_lanes(groups: Sequence[Group], rows: Sequence[Row], lanes: int, asked: Asked = "value") -> float:
    """Side by side, every root is what the definition says, where it is not doubted; how much is, of quotients."""
    w, count = Format(), len(rows) // lanes * lanes
    padded = np.array([(*row, *[0] * (len(PLACES) - len(row))) for row in rows[:count]], dtype=np.uint64)
    vectors = np.ascontiguousarray(padded.reshape(-1, lanes, len(PLACES)).transpose(0, 2, 1))
    results = sum(len(group) + 1 for group in groups)
    run = compiled(source(groups, w, None, asked, lanes))
    found = run(vectors.reshape(len(vectors), -1), results * lanes)
    found = found.reshape(-1, results, lanes).transpose(1, 0, 2).reshape(results, -1)
    columns = meanings([root for group in groups for root in group], w, padded.tolist())
    at, doubted, quotients = 0, 0, 0
    for group in groups:
        doubts = found[at + len(group)] != 0
        divides = any(node.op in ("divshift", "divround") for node in nodes(*group))
        multiplies = any(node.op in ("mulshift", "mulround") for node in nodes(*group))
        assert divides or multiplies or not doubts.any(), group
        doubted, quotients = doubted + int(doubts.sum()) * divides, quotients + len(doubts) * divides
        for root in group:
            expected = np.array(columns[root], dtype=np.uint64)
            expected = (expected != 0).astype(np.uint64) if asked == "truth" else expected
            wrong = np.flatnonzero((found[at] != expected) & ~doubts)
            if len(wrong):
                k = wrong[0]
                pytest.fail(f"{root}, {padded[k]}: {found[at][k]:#x} instead of {expected[k]:#x}")
            at += 1
        at += 1
    return doubted / max(quotients, 1)


# ---------------------------------------------------------------- words


def exhaustive(w: Format, count: int = 2) -> list[Row]:
    return list(product(range(w.mask + 1), repeat=count))


def corners(w: Format) -> list[int]:
    half = (1 << w.width // 2) - 1
    return [0, 1, 2, w.mask, w.mask - 1, w.sign, w.sign - 1, w.sign + 1, half, half + 1, w.mask ^ half]


def drawn(w: Format, rng: random.Random) -> int:
    """A word of any length and sign, or two halves of which each is a corner: division goes wrong at such digits."""
    if rng.random() < 0.4:
        bits = w.width // 2
        digits = (0, 1, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1, (1 << bits) - 2, rng.getrandbits(bits))
        return rng.choice(digits) << bits | rng.choice(digits)
    word = rng.getrandbits(rng.randint(1, w.width))
    return (word if rng.random() < 0.5 else -word) & w.mask


def some_rows(w: Format, count: int, seed: int = 0) -> list[Row]:
    """Every pair of corners, and random words."""
    rng = random.Random(seed)
    rows: list[Row] = [(x, y, drawn(w, rng)) for x, y in product(corners(w), repeat=2)]
    return rows + [tuple(drawn(w, rng) for _ in PLACES) for _ in range(count)]


def rows_of(w: Format, count: int = 300) -> list[Row]:
    return exhaustive(w) if w.width == 4 else some_rows(w, count)


# ---------------------------------------------------------------- trees


def rounded(w: Format) -> list[Expr]:
    """Products and quotients to nearest, and their high words."""
    places = sorted({0, 1, w.frac, w.width - 2, w.width - 1})
    trees = [make(a, b, s) for s in places for make in (mul_round, div_round)]
    return trees + [mul_round(a, b, s + w.width) for s in places] + [div_round(a, b, s - w.width) for s in places]


def products_that_fit(w: Format) -> list[Expr]:
    """What guards ask, and what only looks like it."""
    out = []
    for make in (mul_round, mul_shift):
        for s in sorted({1, w.frac, w.width - 1}):
            out.append(make(a, b, s + w.width).eq(make(a, b, s).sar(w.width - 1)))
        out.append(make(a, b, w.frac + w.width).eq(make(a, b, w.frac - 1).sar(w.width - 1)))
        out.append(make(a, b, w.frac + w.width).eq(make(a, b, w.frac).sar(w.width - 2)))
    return [*out, mul_round(a, b, w.frac + w.width).eq(mul_shift(a, b, w.frac).sar(w.width - 1))]


def products(w: Format) -> dict[int, Expr]:
    shifts = {0, 1, w.frac, w.width - 1, w.width, w.width + w.frac, w.width + 3, 2 * w.width - 1, 2 * w.width}
    return {s: mul_shift(a, b, s) for s in sorted(shifts)}


def quotients(w: Format) -> dict[int, Expr]:
    shifts = {0, 1, -1, w.frac, w.frac - w.width, w.width - 1, w.width, 1 - w.width, -w.width}
    return {s: div_shift(a, b, s) for s in sorted(shifts)}


def roots(w: Format) -> dict[int, Expr]:
    return {s: sqrt_round(a, s) for s in sorted({0, 1, 2, w.frac, w.width - 1, w.width})}


def tables(w: Format) -> list[Expr]:
    """Entries below 0 and beyond a word; an index beyond the table; a table that two trees share."""
    entries = [3, -1, w.sign, 5 << w.width | 6, 0, w.mask, 7, -w.sign, *range(8)]
    return [look_up(a, entries[:n]) for n in (1, 2, 4, 16)] + [look_up(a + b, entries[:4]) + look_up(b, entries[:4])]


def truths() -> list[Expr]:
    """Conditions of conditions, as words and as what is chosen by."""
    less, same, below = a.lt(b), a.eq(b), a.ltu(b)
    return [
        less & below, less | same, (less & below) | (same & less), less.eq(0), same.ne(0), less.eq(below), less.eq(1),
        select(less, same, below), select(less, same, below.eq(0)), select(a, same, below), select(less, a, same),
        select(a & 1, a, b), select(a & b, b, a), select(less.eq(0), a - b, b - a), less + same, less ^ below,
        less & a, less | b, less - 1, (less & below).eq(a), a << less, a.shr(same), less.lt(same), less.ltu(same),
    ]  # fmt: skip


def checked_sums(w: Format) -> list[Group]:
    """Sums with what says that they fit, and their like: in which the terms are not those of the sum."""
    add, sub = UPDATE_OPERATORS["add"].fits, UPDATE_OPERATORS["sub"].fits
    assert add is not None
    assert sub is not None
    t, e = a + b, a - b
    return [
        [add(w, a, b), a + b],
        [a - b, sub(w, a, b)],
        [add(w, a, b) & sub(w, a, b), a + b, a - b],
        [add(w, a + b, a - b), sub(w, a + b, a - b), a + b],
        [select(add(w, a, b), a + b, const(w.sign))],
        [add(w, a, a), sub(w, a, a), add(w, a, const(1)), sub(w, const(0), a)],
        [((b ^ t) & (a ^ t)).ge(0), ((a ^ t) & (a ^ t)).ge(0), ((t ^ a) & (t ^ b)).ge(0), ((a ^ t) & (b ^ t)).lt(0)],
        [((a ^ b) & (b ^ e)).ge(0), ((a ^ e) & (a ^ b)).ge(0), ((b ^ a) & (a ^ e)).ge(0), ((b ^ e) & (a ^ e)).ge(0)],
        [((a ^ t) & (b ^ e)).ge(0), ((a ^ t) & (c ^ t)).ge(0), ((a ^ c) & (a ^ e)).ge(0)],
    ]


def plain(w: Format) -> list[Expr]:
    """Every operation that has no parameter, constants, and what is made of them."""
    binary = ("add", "sub", "and", "or", "xor", "shl", "shr", "sar", "eq", "lt", "ltu")
    of_constants = [a + w.mask, a - 1, const(5) - a, a << 1, a << w.width, a.sar(w.width - 1), a.shr(w.width + 1)]
    more = [a, const(0), const(-1), const(w.sign), const(1 << w.width | 3), -a, ~a, a * b, rotate_left(a, b)]
    return [Expr(op, (a, b)) for op in binary] + [select(a, b, const(3)), select(const(0), a, b)] + of_constants + more


def all_trees(w: Format) -> list[Group]:
    alone = [*plain(w), *truths(), *tables(w), *products(w).values(), *roots(w).values()]
    alone += [tree for tree in rounded(w) if tree.op == "mulround"]
    alone += products_that_fit(w)
    return [*([tree] for tree in alone), *checked_sums(w)]


def all_quotients(w: Format) -> list[Group]:
    of_both = [a - div_shift(a, b, 0) * b, div_shift(a, b, 0)]
    to_nearest = [tree for tree in rounded(w) if tree.op == "divround"]
    return [[tree] for tree in (*quotients(w).values(), *to_nearest)] + [of_both]


def test_every_operation_has_trees() -> None:
    for w in FORMATS:
        groups = [*all_trees(w), *all_quotients(w)]
        assert {node.op for group in groups for node in nodes(*group)} == set(OPERATIONS)


# ---------------------------------------------------------------- against the definition


@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize("level", [0, 2])
def test_trees(w: Format, level: int) -> None:
    check(all_trees(w), w, rows_of(w), level=level)


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_truths(w: Format) -> None:
    """Asked whether it is zero, before its word is known."""
    check([*all_trees(w), *all_quotients(w)], w, rows_of(w, 100), asked="truth")


LONG_PLACES = (0, 1, 17, 31, 32, 48, 61, 62, 63)


def long_rows(count: int, seed: int, of: Sequence[int] = LONG_PLACES) -> list[Row]:
    """Words whose quotients have up to 65 bits, many of them ties or next to them, and squares of such roots."""
    rng = random.Random(seed)
    out: list[Row] = []
    for _ in range(count):
        places, bits = rng.choice(of), rng.randint(2, 65)
        twice = rng.getrandbits(bits) | 1 << bits - 1
        y = rng.getrandbits(max(1, min(63, 63 + places - bits))) | 1
        x = (twice * y >> places + 1) + rng.randrange(-1, 2)
        out.append((rng.choice((x, -x)) % 2**64, rng.choice((y, -y)) % 2**64))
        r = rng.getrandbits(rng.randint(20, 62))
        out.append((((r * r + r >> rng.choice((0, 38, 61, 62))) + rng.randrange(-1, 2)) % 2**64, y))
        # Newton's step from the double's root gives ⌊√n⌋ + 1.
        out.append(((1 << rng.randrange(55, 63)) + rng.randrange(1, 200), y))
    return out


@pytest.mark.parametrize("asked", ["value", "truth"])
def test_long_quotients_and_roots(asked: Asked) -> None:
    """By the host's division, with the word above and the test that there is none."""
    w, groups = Format(), []
    for s in LONG_PLACES:
        low, high = div_round(a, b, s), div_round(a, b, s - 64)
        groups.append([low, high, high.eq(low.sar(63))])
    groups += [[sqrt_round(a, s)] for s in range(ROOT_SHIFT + 1, 63)]
    rows = some_rows(w, 400) + long_rows(3000, 7)
    check(groups, w, rows, "instruction", asked=asked, long=True)


def test_three_words() -> None:
    trees = [select(a, b, c), select(a.lt(b), b, c), select(a.eq(b), c.eq(a), b), (a + b).lt(c), mul_shift(a + c, b, 3)]
    w = Format(4, 2)
    check([[tree] for tree in trees], w, exhaustive(w, 3))


@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize("division", DIVISIONS)
def test_quotients(w: Format, division: str) -> None:
    check(all_quotients(w), w, rows_of(w, 2000), division)


def close_rows(w: Format, s: int, rng: random.Random) -> list[Row]:
    """Quotients x·2^s / y just below, at and above an integer, up to those that doubles tell and a little beyond."""
    out: list[Row] = []
    while len(out) < 3000:
        y = rng.getrandbits(rng.randint(1, w.width - 1)) * rng.choice((1, -1))
        q = (
            rng.getrandbits(rng.randint(1, 52))
            if rng.random() < 0.7
            else (1 << rng.choice((48, 49, 50))) + rng.randint(-3, 3)
        )
        x = (rng.choice((1, -1)) * q * y >> s) + rng.randint(-1, 1)
        if y and -w.sign <= x < w.sign:
            out.append((x & w.mask, y & w.mask))
    return out


@pytest.mark.parametrize("asked", ["value", "truth"])
@pytest.mark.parametrize("places", [1, 16, 32, 62, 63])
def test_products_with_a_known_factor(places: int, asked: Asked) -> None:
    """Factors around 0, ±½, ±1 and the ends of the words: the word, rounded and not, and whether it is all."""
    w, rng = Format(64, places), random.Random(places)
    half, one = 1 << places - 1, 1 << places
    factors = {(x + d) & w.mask for x in (0, half, -half, one, -one, w.sign, rng.randrange(one)) for d in (-1, 0, 1)}
    groups = [
        [low, high_word(low, w).eq(low.sar(w.width - 1))]
        for factor in sorted(factors)
        for low in (mul_round(a, const(factor), places), mul_shift(const(factor), a, places))
    ]
    check(groups, w, [(x,) for x in (*corners(w), *(drawn(w, rng) for _ in range(40)))], asked=asked)


@pytest.mark.parametrize("w", [Format(64, 32), Format(64, 50), Format(32, 16)], ids=str)
@pytest.mark.parametrize("division", DIVISIONS)
def test_quotients_close_to_integers(w: Format, division: str) -> None:
    for s in (0, w.frac, w.width):
        check([[div_shift(a, b, s)]], w, close_rows(w, s, random.Random(s)), division)


def lane_trees() -> list[Group]:
    """Roots of words shifted far are left to those that run alone."""
    w = Format()
    groups = [*all_trees(w), *all_quotients(w)]
    return [
        group
        for group in groups
        if all(node.op != "sqrtround" or int(str(node.param)) <= ROOT_SHIFT for node in nodes(*group))
    ]


@pytest.mark.parametrize("lanes", [2, 8])
@pytest.mark.parametrize("asked", ["value", "truth"])
def test_trees_side_by_side(lanes: int, asked: Asked) -> None:
    doubted = check_lanes(lane_trees(), some_rows(Format(), 2000), lanes, asked)
    assert doubted < 0.5


@pytest.mark.parametrize("places", [1, 32, 33, 63, 64])
@pytest.mark.parametrize("fault", [False, True])
def test_products_side_by_side(places: int, fault: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both words of a product, at corners of all halves; unsound only for a word from 2^63 − 2^31 on, and wrong without this test."""
    w = Format()
    digits = [0, 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 1]
    words = [high << 32 | low for high in digits for low in digits]
    rows = [(x, y) for x in words for y in words]
    if fault:
        monkeypatch.setattr(llvm_ir, "undivided", lambda x: x & 0)
    groups = [[mul_round(a, b, places), mul_shift(a, b, w.width), mul_shift(a, b, places)]]
    run = compiled(source(groups, w, None, "value", 4), keep=False)
    vectors = np.array([(*row, *[0] * (len(PLACES) - 2)) for row in rows], dtype=np.uint64)
    vectors = np.ascontiguousarray(vectors.reshape(-1, 4, len(PLACES)).transpose(0, 2, 1))
    found = run(vectors.reshape(len(vectors), -1), 16).reshape(-1, 4, 4).transpose(1, 0, 2).reshape(4, -1)
    columns = meanings(groups[0], w, [(*row, *[0] * (len(PLACES) - 2)) for row in rows])
    large = np.array([any((1 << 63) - (1 << 31) <= x < 1 << 63 for x in row) for row in rows])
    right = [got == np.array(columns[root], dtype=np.uint64) for got, root in zip(found, groups[0], strict=False)]
    assert ((found[3] != 0) == large).all() == (not fault)
    assert all((same | large).all() for same in right)
    assert not all(same.all() for same in right)


def test_quotients_close_to_integers_side_by_side() -> None:
    w = Format()
    for s in (0, w.frac, w.width):
        rows = close_rows(w, s, random.Random(s))
        assert check_lanes([[div_shift(a, b, s)]], rows, 8) < 0.5


@pytest.mark.parametrize("places", [*LONG_PLACES, 34, 35, 40])
def test_long_quotients_side_by_side(places: int) -> None:
    """From 2^49 to 2^61, in two digits; doubted beyond, and for divisors from 2^49 on where the first remainder is no word."""
    low = div_round(a, b, places)
    rows = some_rows(Format(), 400) + long_rows(4000, places, (places,))
    assert check_lanes([[low, div_round(a, b, places - 64)]], rows, 8) < 0.6
    signed = Format().signed
    lengths = [abs((signed(x) << places) // signed(y)).bit_length() for x, y, *_ in rows if y]
    assert sum(50 < length < 61 for length in lengths) > 500


def rows_near_ties(s: int, count: int) -> list[Row]:
    """Words (x, y, n) of 64 bits: x·2^s / y and √(n·2^s) lie next to a number k + ½, and exactly there where that can be."""
    rng, rows = random.Random(s), []
    while len(rows) < count:
        bits = rng.randint(2, 50)
        k, divisor = rng.getrandbits(bits), rng.getrandbits(rng.randint(1, 62)) | 1 << rng.randint(0, 40)
        dividend = ((2 * k + 1) * divisor >> s + 1) + rng.randint(-1, 1)
        radicand = (k * k + k >> s) + rng.randint(0, 1)
        if max(dividend, divisor, radicand) < 1 << 63:
            sign = rng.choice((1, -1))
            rows.append((sign * dividend % (1 << 64), divisor, radicand))
    return rows


@pytest.mark.parametrize("sure", [None, lambda real, whole: whole.lt(2.0**49), lambda real, whole: real.lt(2.0**49)])
def test_quotients_and_roots_near_ties(sure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The integer next to a quotient of doubles is taken only where it is certain."""
    w = Format()
    if sure is not None:
        monkeypatch.setattr(llvm_functions, "_is_sure", sure)
    for s in (0, w.frac):
        rows = rows_near_ties(s, 4000)
        quotients_ = [[div_round(a, b, s), div_round(a, b, s - w.width)]]
        for groups, lanes in ((quotients_, 1), (quotients_, 8), ([[sqrt_round(c, s)]], 1)):
            if lanes == 1:
                attempt = partial(check, groups, w, rows, keep=False)
            else:
                attempt = partial(check_lanes, groups, rows, lanes)
            if sure is None:
                attempt()
            elif s:
                with pytest.raises(pytest.fail.Exception, match="instead of"):
                    attempt()


def test_the_double_of_a_word_is_shared() -> None:
    """A quotient by a root takes the double of the root, also where the root was added to a register; by two words, one division."""
    w = Format()
    code = ModuleBuilder().function("shared", VOID, {"x": I64, "y": I64, "z": I64})
    x, y, z = code.arguments
    fits = UPDATE_OPERATORS["add"].fits
    assert fits is not None
    total, check_ = UPDATE_OPERATORS["add"].combine(w, a, sqrt_round(b, 32)), fits(w, a, sqrt_round(b, 32))
    trees = Trees(code, w, {"a": z, "b": x}, (total, check_))
    divisor = trees.value(total)
    for dividend in (x, y, x):
        words = {"a": dividend, "b": divisor}
        assert Trees(code, w, words, (div_round(a, b, 32),)).value(div_round(a, b, 32)).type is I64
    text = "\n".join(code.lines)
    assert text.count("fdiv double") == 1
    assert text.count("call { i64, i64, i1 } @unsure_quotient64_32") == 2
    assert re.search(r"select i1 %v\d+, double %v\d+, double %v\d+", text) is not None
    code.start(code.block("next"))
    assert not code.doubles


@pytest.mark.long
def test_instructions_side_by_side() -> None:
    """The long functions too: the tree of every function of the table."""
    w = Format()
    values = [e.value(w) for e in TABLE.entries if isinstance(e, Function)]
    groups = [[value] for value in values if inputs(value) <= set(PLACES)]
    assert len(groups) > 30
    rng = random.Random(5)
    rows = some_rows(w, 200)
    small = [tuple((rng.getrandbits(37) - (1 << 36)) & w.mask for _ in PLACES) for _ in range(600)]
    check_lanes(groups, rows + small, 8)


@pytest.mark.parametrize("w", [Format(4, 2), Format(64, 32)], ids=str)
@pytest.mark.parametrize("division", DIVISIONS)
def test_quotients_of_the_same_operands(w: Format, division: str) -> None:
    """Two and more shifts: of the second, the first is the shifted quotient."""
    shifts = range(-4, 5) if w.width == 4 else (-64, -63, -32, -1, 0, 1, 31, 32, 63, 64)
    groups = [[div_shift(a, b, s) for s in some] for some in combinations(shifts, 2)]
    groups += [[div_shift(a, b, s) for s in some] for some in ((0, 2, 4), (4, 2, 0), (-4, 4, -2, 2), shifts)]
    groups += [[div_shift(a, b, 2) + div_shift(b, a, -2) * 3, div_shift(b, a, 4), div_shift(a, b, 4)]]
    groups += [
        [div_round(a, b, s), div_round(a, b, s - w.width), div_shift(a, b, t)] for s, t in ((2, 0), (0, 2), (3, 4))
    ]
    groups += [[div_shift(a, b, 0), div_round(a, b, w.width - 1), div_round(a, b, -1), div_round(a, b, 1)]]
    check(groups, w, rows_of(w, 200), division)


@pytest.mark.long
def test_words_of_one_product() -> None:
    for w in (Format(4, 2), Format(64, 32)):
        to_nearest = [tree for tree in rounded(w) if tree.op == "mulround"]
        groups = [list(some) for some in combinations([*products(w).values(), *to_nearest], 2)]
        check(groups, w, rows_of(w, 100))


@pytest.mark.parametrize("w", [w for w in FORMATS if w.width > 4], ids=str)
@pytest.mark.parametrize("division", DIVISIONS)
def test_roots_of_squares_and_their_neighbours(w: Format, division: str) -> None:
    """Where the root is a whole number, a double is most easily one off."""
    rng = random.Random(w.width)
    rows: list[Row] = []
    for s in roots(w):
        largest = 1 << (w.width - 1 + s) // 2
        for r in (1, 2, 3, largest, largest - 1, *(rng.randrange(1, largest + 1) for _ in range(300))):
            # And half way between two roots.
            for square in (r * r >> s, r * r + r >> s):
                rows += [(x & w.mask,) for x in (square - 1, square, square + 1) if x < w.sign]
    check([[tree] for tree in roots(w).values()], w, rows, division)


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_exhaustively_at_8_bits(part: int) -> None:
    w = Format(8, 4)
    groups = [*all_trees(w), *all_quotients(w)]
    check(groups[part::8], w, exhaustive(w))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("division", DIVISIONS)
def test_many_quotients_and_roots(division: str, seed: int) -> None:
    w = Format(64, 32)
    trees = [[tree] for tree in (*quotients(w).values(), *roots(w).values(), *products(w).values(), *rounded(w))]
    check(trees, w, some_rows(w, 40_000, seed + 1), division)


# ---------------------------------------------------------------- random trees


@st.composite
def random_trees(draw: st.DrawFn) -> tuple[Format, list[Expr]]:
    """Trees that share: every node is made of any before it."""
    width = draw(st.sampled_from(WIDTHS))
    w = Format(width, draw(st.sampled_from((0, width // 2, width - 1))))
    pool = [a, b, c, const(draw(st.sampled_from((0, 1, -1, w.sign, 3))))]
    computing = [op for op in OPERATIONS if op not in ("const", "input")]
    ranges = {"mulshift": (0, 2 * width), "divshift": (-width, width), "sqrtround": (0, width)}
    ranges |= {"mulround": (0, 2 * width - 1), "divround": (-width, width - 1)}
    for _ in range(draw(st.integers(1, 14))):
        op = draw(st.sampled_from(computing))
        args = tuple(pool[draw(st.integers(0, len(pool) - 1))] for _ in range(OPERATIONS[op][0]))
        param: Any = None
        if op in ranges:
            param = min(draw(st.integers(*ranges[op]) | st.sampled_from((0, width, w.frac))), ranges[op][1])
        elif op == "table":
            param = tuple(draw(st.integers(-w.sign, w.mask)) for _ in range(draw(st.sampled_from((1, 2, 4, 8)))))
        pool.append(Expr(op, args, param))
    return w, pool[-draw(st.integers(1, 3)) :]


def check_random_trees(case: tuple[Format, list[Expr]], seed: int, level: int, asked: Asked) -> None:
    w, group = case
    rng = random.Random(seed)
    rows = [tuple(rng.choice((drawn(w, rng), rng.choice(corners(w)))) for _ in PLACES) for _ in range(30)]
    check(
        [group], w, rows, "digits" if seed % 2 else DIVISIONS[jit_compiler().divide is None], level, asked, keep=False
    )


SEEDS, ASKED = st.integers(0, 1 << 30), st.sampled_from(("value", "truth"))
SLOW_TO_DRAW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@given(random_trees(), SEEDS, st.sampled_from((0, 2)), ASKED)
@settings(max_examples=60, suppress_health_check=SLOW_TO_DRAW)
def test_random_trees(case: tuple[Format, list[Expr]], seed: int, level: int, asked: Asked) -> None:
    check_random_trees(case, seed, level, asked)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_many_random_trees(part: int) -> None:
    @given(random_trees(), SEEDS, st.sampled_from((0, 2)), ASKED)
    @settings(max_examples=1500, suppress_health_check=SLOW_TO_DRAW)
    def run(case: tuple[Format, list[Expr]], seed: int, level: int, asked: Asked) -> None:
        check_random_trees(case, seed, level, asked)

    run()


# ---------------------------------------------------------------- what is done better is done


def test_a_sum_and_whether_it_fits_are_one_instruction() -> None:
    w = Format()
    for name in ("add", "sub"):
        fits = UPDATE_OPERATORS[name].fits
        assert fits is not None
        total = UPDATE_OPERATORS[name].combine(w, a, b)
        text = source([[total, fits(w, a, b)]], w, None)
        assert text.count(f"call {{ i64, i1 }} @llvm.s{name}.with.overflow.i64") == 1
        assert re.search(rf"= {name} i64 %v\d+, %v", text) is None
        # What only looks like it is left alone.
        assert "with.overflow" not in source([[total, ((a ^ total) & (c ^ total)).ge(0)]], w, None)


def test_checks_in_lanes_are_gathered_by_or() -> None:
    """The word of a guard is below its bound where the guard holds, if no word is unsound, at corners and at random."""
    w = Format()
    product = mul_round(a, b, w.frac)
    guards = [
        *(UPDATE_OPERATORS[name].fits(w, a, b) for name in ("add", "sub")),
        mul_round(a, b, w.frac + w.width).eq(product.sar(w.width - 1)),
    ]
    rows = some_rows(w, 300)
    for guard in guards:
        code = ModuleBuilder().function("gather", VOID, {"in": POINTER, "out": POINTER}, "", linkage="")
        given, out = (argument.of(I64.vector(4)) for argument in code.arguments)
        words = {name: given[i].load(8) for i, name in enumerate(PLACES)}
        trees = Trees(code, w, words, (guard,), lanes=4)
        found = trees.below(guard)
        assert found is not None
        assert Trees(code, w, words, (guard,), lanes=4).below(a.eq(b)) is None
        out[0].store(found[0], 8)
        out[1].store(code.any(trees.unsound(), I64.vector(4).truth).to(I64.vector(4)), 8)
        code.ret()
        address = jit_compiler().load(code.module.text(), ["gather"], code.module.text)["gather"]
        gather = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
        for row in rows:
            words_in = np.repeat(np.array(row, dtype=np.uint64)[:, None], 4, axis=1)
            words_out, unsound = np.zeros((2, 4), dtype=np.uint64)
            gather(words_in.ctypes.data, words_out.ctypes.data)
            assert not unsound.any() or max(row[:2]) >= (1 << 63) - (1 << 31)
            if unsound.any():
                continue
            holds = evaluate(guard, w, dict(zip(PLACES, row, strict=True)))
            assert [int(word < 1 << found[1]) for word in words_out.tolist()] == [holds] * 4, row


def test_one_division_serves_every_shift() -> None:
    w = Format()
    text = source([[div_shift(a, b, s) for s in (-32, 0, 32)]], w, None)
    assert text.count("= call i128 @quotient64_32(") == 1
    fits = div_round(a, b, -32).eq(div_round(a, b, 32).sar(63))
    rounded = source([[div_round(a, b, 32), div_round(a, b, -32), fits]], w, None)
    group = rounded[rounded.index("@group0(") :]
    group = group[: group.index("\n}")]
    assert (group.count("fdiv"), group.count("@unsure_quotient64_32(")) == (1, 1)
    assert "icmp" not in group
    assert "@quotient64(" not in text
    # Not so of the shift by a whole word: that quotient may have one bit too many for it.
    assert source([[div_shift(a, b, s) for s in (0, 64)]], w, None).count("= call i128 @quotient64_") == 2


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_whether_a_rounded_quotient_fits(w: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    low, high = div_round(a, b, w.frac), div_round(a, b, w.frac - w.width)
    fits = high.eq(low.sar(w.width - 1))
    assert quotient_tested_by(fits, w) is low
    assert quotient_tested_by(div_round(b, a, w.frac - w.width).eq(low.sar(w.width - 1)), w) is None
    check([[fits, low, high]], w, some_rows(w, 500), keep=False, level=0)
    monkeypatch.setattr(llvm_ir, "quotient_tested_by", lambda node, w: div_round(b, a, w.frac))
    with pytest.raises(pytest.fail.Exception, match="instead of"):
        check([[fits]], w, some_rows(w, 500), keep=False, level=0)


def test_one_product_serves_every_shift() -> None:
    w = Format()
    assert source([[mul_shift(a, b, s) for s in (32, 64, 96)]], w, None).count("mul nsw i128") == 1
    text = source([[mul_round(a, b, s) for s in (32, 96)]], w, None)
    assert (text.count("mul nsw i128"), text.count("add nsw i128")) == (1, 1)


# ---------------------------------------------------------------- the checks can fail


def swapped(names: Mapping[str, str]) -> dict[str, str]:
    return dict(zip(names, reversed(names.values()), strict=True))


def faults() -> Iterator[tuple[str, Any]]:
    """(name in llvm_ir, what stands there instead)"""
    yield "_SHIFTS", swapped(llvm_ir._SHIFTS)
    root, quotient, wide = llvm_ir.integer_root, llvm_ir.integer_quotient, llvm_ir.wide_quotient
    yield "integer_root", lambda module, w, s: root(module, w, max(0, s - 1))
    # Truncated, not floored.
    yield "integer_quotient", lambda m, w: _spoil(m, quotient(m, w))
    yield "wide_quotient", lambda m, w, s: _spoil(m, wide(m, w, s))
    rounded = llvm_ir.rounded_quotient
    yield "rounded_quotient", lambda x, y, w, s: rounded(y, x, w, s)
    yield "sum_tested_by", lambda node: None if node.op != "eq" or node.args[0].op != "lt" else _any_sum(node)
    yield "is_truth", lambda node: node.op in ("eq", "lt", "ltu", "and")


def forget() -> None:
    """Let trees be analysed again."""
    llvm_ir._sharing_of.cache_clear()
    llvm_ir._checked_sums.cache_clear()


def _spoil(module: ModuleBuilder, callee: Callee) -> Callee:
    """A function in which a truth that is added as a number counts for nothing."""
    code = next(f for f in module.functions if f.callee is callee)
    code.lines = [re.sub(r"= ([sz]ext i1) %\w+ to", r"= \1 false to", line) for line in code.lines]
    return callee


def _any_sum(node: Expr) -> Expr | None:
    return next((n for n in nodes(node) if n.op in ("add", "sub") and n.args == (a, b)), None)


def test_a_wrong_quotient_of_words_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What doubles cannot tell: truncated, not floored."""
    w, far = Format(), llvm_functions._far_quotient

    def spoilt(module: ModuleBuilder, w: Format, s: int) -> Callee:
        return _spoil(module, far(module, w, s))

    monkeypatch.setattr(llvm_functions, "_far_quotient", spoilt)
    with pytest.raises(pytest.fail.Exception, match="instead of"):
        check([[div_shift(a, b, w.frac)]], w, some_rows(w, 2000), keep=False, level=0)


def test_a_sum_undone_is_no_instruction() -> None:
    """(x + y) − y and its like, in instructions one after the other; a deferred check is not made twice."""
    w = Format()
    fits = {name: UPDATE_OPERATORS[name].fits for name in ("add", "sub")}
    for first, second, order in (
        ("add", "sub", "zy"),
        ("sub", "add", "zy"),
        ("sub", "add", "yz"),
        ("sub", "sub", "xz"),
    ):
        for deferred in (False, True):
            code = ModuleBuilder().function("sums", VOID, {"x": I64, "y": I64})
            x, y = code.arguments
            words, values = {"a": x, "b": y}, {"x": x, "y": y}
            for op, result in ((first, "z"), (second, "u")):
                check_ = fits[op]
                assert check_ is not None
                tree = UPDATE_OPERATORS[op].combine(w, a, b)
                trees = Trees(code, w, words, (tree, check_(w, a, b)), (check_(w, a, b),) if deferred else ())
                values[result] = trees.value(tree)
                trees.truth(check_(w, a, b))
                words = {place: values[name] for place, name in zip("ab", order, strict=True)}
            text = "\n".join(code.lines)
            assert values["u"] is (y if order == "xz" else x)
            assert text.count("with.overflow") == (1 if deferred else 2)
            code.start(code.block("next"))
            assert llvm_ir._cancelled(second, values["z"], y) is None


@pytest.mark.parametrize("fault", list(faults()), ids=lambda f: f[0])
def test_a_wrong_fold_is_found(fault: tuple[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    w = Format(4, 2)
    groups = [*all_trees(w), *all_quotients(w), [div_shift(a, b, 2)]]
    monkeypatch.setattr(llvm_ir, *fault)
    forget()
    try:
        with pytest.raises(pytest.fail.Exception, match="instead of"):
            check(groups, w, exhaustive(w), keep=False, level=0)
    finally:
        forget()
