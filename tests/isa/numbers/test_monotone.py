"""exp, log, sqrt and the conversions of lognumbers never decrease where the true functions grow.

A table method can fail in one kind of place: where one segment of the table hands over to the next. So every
edge of every segment is crossed in single steps, 64 words on either side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import mpmath as mp
import pytest
from retrograd.isa import functions
from retrograd.isa.folds import emit
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

FORMATS = [Format(64, 32), Format(32, 16)]
REACH = 64

Edges = Callable[[Format, bool], Iterable[int]]
formats = pytest.mark.parametrize("w", FORMATS, ids=str)


def compile_value(name: str, w: Format) -> Callable[[int], int]:
    """a -> the target's word from 0."""
    statements, (value,) = emit([TABLE[name].transition(w)["d"]], w, {"a": "a", "d": "0"})
    scope: dict[str, Any] = {}
    body = [*statements, f"return {value}"]
    exec("def run(a):\n" + "".join(f"    {line}\n" for line in body), {"isqrt": math.isqrt}, scope)
    return scope["run"]  # type: ignore[no-any-return]


def of_power(unit: str) -> Edges:
    """Edges of a power's segments: y = e + (j + ½)/2^K, y the exponent of 2, of which `unit` makes one."""

    def edges(w: Format, whole: bool) -> Iterable[int]:
        k = 1 << functions.index_bits(w)
        low, high = -w.frac - 2, w.width - 2 - w.frac
        with mp.workprec(200):
            one = (mp.log(2) if unit == "ln 2" else mp.mpf(1)) * (1 << w.frac)
            for e in range(low, high + 1) if whole else (low, -1, 0, high):
                yield from (int(mp.floor((e + (j + mp.mpf(1) / 2) / k) * one)) for j in range(k))
                # Where 2^y is exact, and the exponent steps.
                yield int(mp.floor(e * one))

    return edges


def of_mantissa(w: Format, whole: bool) -> Iterable[int]:
    """Edges of a logarithm's segments: x = 2^e·(1 + j/2^K), and powers of two among them."""
    bits = functions.index_bits(w)
    # Where ln x grows by less than a word in 64 steps, and where by many; and on both sides of 1.
    some = (bits + 1, w.frac - 1, w.frac, w.frac + bits, w.width - 2)
    for e in range(w.width - 1) if whole else some:
        yield from sorted({((1 << bits) + j << e) >> bits for j in range(1 << bits)})


CASES: dict[str, Edges] = {
    "fexp.add": of_power("ln 2"),
    "ltof.add": of_power("1"),
    "flog.add": of_mantissa,
    "ftol.mul": of_mantissa,
    "fsqrt.add": of_mantissa,
}


def domain(name: str, w: Format) -> range:
    """The words that the function takes and whose value fits."""
    one, bits = 1 << w.frac, w.width - 1 - w.frac
    match name:
        case "fexp.add":
            return range(-w.sign, min(w.sign, math.floor(bits * one * math.log(2))))
        case "ltof.add":
            return range(-w.sign // 2, min(w.sign // 2, bits * one))
        case "flog.add":
            return range(max(1, math.ceil(one * math.exp(-(1 << bits)))), w.sign)
        case "ftol.mul":
            return range(max(1, math.ceil(one * 2 ** -(2.0**bits / 2))), w.sign)
        case _:
            return range(1, w.sign)


def arguments(name: str, w: Format, edge: int) -> range:
    """The domain within REACH of an edge."""
    whole = domain(name, w)
    return range(max(whole.start, edge - REACH), min(whole.stop, edge + REACH + 1))


def check(name: str, w: Format, whole: bool) -> tuple[int, int, int]:
    """(edges crossed, steps taken, steps at which the value grew)."""
    run = compile_value(name, w)
    to_lognum, from_lognum = name == "ftol.mul", name == "ltof.add"
    crossed = steps = grew = 0
    for edge in CASES[name](w, whole):
        crossed += 1
        before: int | None = None
        for x in arguments(name, w, edge):
            word = run(x & (w.sign - 1) if from_lognum else x & w.mask)
            value = w.signed(word << 1) >> 1 if to_lognum else w.signed(word)
            if before is not None:
                assert value >= before, (x, before, value)
                steps += 1
                grew += value > before
            before = value
    return crossed, steps, grew


@formats
@pytest.mark.parametrize("name", list(CASES))
def test_monotone_where_segments_meet(name: str, w: Format) -> None:
    crossed, steps, grew = check(name, w, whole=False)
    assert crossed >= 4 * 64
    assert steps > 60 * crossed
    # If it never grew, it would be monotone for nothing.
    assert grew > 1000


@pytest.mark.long
@formats
@pytest.mark.parametrize("name", list(CASES))
def test_monotone_at_every_edge(name: str, w: Format) -> None:
    crossed, _, _ = check(name, w, whole=True)
    assert crossed > 1000


@pytest.mark.parametrize("w", [Format(16, 4), Format(16, 6), Format(16, 7)], ids=str)
@pytest.mark.parametrize("name", list(CASES))
def test_monotone_over_the_whole_domain_of_short_words(name: str, w: Format) -> None:
    run = compile_value(name, w)
    to_lognum, from_lognum = name == "ftol.mul", name == "ltof.add"
    words = [run(x & (w.sign - 1) if from_lognum else x & w.mask) for x in domain(name, w)]
    values = [w.signed(word << 1) >> 1 if to_lognum else w.signed(word) for word in words]
    assert len(values) > 15_000
    assert [x for x, y, z in zip(domain(name, w), values, values[1:], strict=False) if y > z] == []


@formats
def test_the_edges_are_where_the_tables_change(w: Format) -> None:
    """The edges above are computed from the mathematics; the look-ups in the trees must change there and only there."""
    bits = functions.index_bits(w)
    from retrograd.isa.expr import Expr, nodes, place

    def index_of(tree: Expr) -> Callable[[int], int]:
        node = next(n for n in nodes(tree) if n.op == "table")
        statements, (text,) = emit([node.args[0]], w, {"a": "a"})
        scope: dict[str, Any] = {}
        exec("def run(a):\n" + "".join(f"    {s}\n" for s in [*statements, f"return {text}"]), scope)
        return lambda x: scope["run"](x & w.mask) % (1 << bits)  # type: ignore[no-any-return]

    a = place("a")
    power, log = index_of(functions.exp(a, w)[0]), index_of(functions.log(a, w)[0])
    with mp.workprec(200):
        one = mp.log(2) * (1 << w.frac)
        for j in range(1 << bits):
            x = int(mp.floor((j + mp.mpf(1) / 2) / (1 << bits) * one))
            assert (power(x), power(x + 1)) == (j, (j + 1) % (1 << bits))
    for e in (w.frac, w.width - 2):
        for j in range(1 << bits):
            x = ((1 << bits) + j) << (e - bits)
            assert (log(x - 1), log(x)) == ((j - 1) % (1 << bits), j)
