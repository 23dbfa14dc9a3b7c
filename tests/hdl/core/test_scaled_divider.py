"""The scaled divider: bounds of its reciprocals, and its quotients against those of whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from amaranth.sim import Simulator
from hypothesis import example, given, settings
from hypothesis import strategies as st
from retrograd.hdl.core import divider
from retrograd.hdl.core.divider import Reciprocals, ScaledDivider, reciprocals
from retrograd.hdl.microword import Division
from retrograd.isa.expr import apply_operation
from retrograd.isa.microarchitecture.micro_operations import CORES, Units
from retrograd.isa.words import Format

FAST = CORES["fast"]


def divisions_of(w: Format) -> list[Division]:
    """Divisions of the microcode, and others, by the places that x is shifted."""
    places = sorted({0, 1, w.frac, w.frac - 1, 2 * w.frac - 2, w.width})
    found = [Division(False, s, rounded) for s in places for rounded in (False, True) if s < w.width or not rounded]
    return [*found, Division(True, w.frac, True)]


class Simulated:
    """A divider that is simulated again and again."""

    def __init__(self, w: Format, units: Units, made: Callable[..., Any] = ScaledDivider) -> None:
        self.w, self.units, self.divisions = w, units, divisions_of(w)
        self.unit = made(w.width, self.divisions, (0, w.width), units, flags=True)
        self.asked: list[tuple[int, int, int]] = []
        self.simulator: Simulator | None = None

    def check(self, asked: list[tuple[int, int, int]]) -> None:
        """The results of (index of a division, x, y) are those of whole numbers, as many cycles later as schedules count on."""
        self.asked = asked
        if self.simulator is None:
            self.simulator = Simulator(self.unit)
            self.simulator.add_clock(1e-6)
            self.simulator.add_testbench(self._bench)
        else:
            self.simulator.reset()
        self.simulator.run()

    async def _bench(self, ctx: Any) -> None:
        unit, w = self.unit, self.w
        for index, x, y in self.asked:
            # Another division has begun, and is abandoned.
            await self._start(ctx, 0, 1, 3)
            await ctx.tick().repeat(1 + (x ^ y) % 5)
            await self._start(ctx, index, x, y)
            division = self.divisions[index]
            await ctx.tick().repeat(self.units.latency(division.operation, w, division.s) - 2)
            found = exact(division, x, y, w)
            for which, shift in enumerate(unit.shifts[: 1 if division.root else None]):
                ctx.set(unit.shift, which)
                word = found >> shift
                assert ctx.get(unit.result) == w.wrap(word), (division, w.signed(x), w.signed(y), shift)
                assert ctx.get(unit.fits) == (w.signed(w.wrap(word)) == word), (division, x, y, shift)
                await ctx.tick()

    async def _start(self, ctx: Any, index: int, x: int, y: int) -> None:
        unit, mask = self.unit, self.w.mask
        for signal, word in ((unit.start, 1), (unit.division, index), (unit.x, x), (unit.y, y)):
            ctx.set(signal, word)
        await ctx.tick()
        for signal, word in ((unit.start, 0), (unit.division, 0), (unit.x, ~x & mask), (unit.y, ~y & mask)):
            ctx.set(signal, word)


def exact(division: Division, x: int, y: int, w: Format) -> int:
    """The whole quotient or root."""
    if division.root:
        return apply_operation(w, "sqrtround", division.s, [x])
    if not y:
        return 0
    quotient = Fraction(w.signed(x) << division.s, w.signed(y))
    return math.floor(quotient + Fraction(division.rounded, 2))


@cache
def simulated(w: Format, k: int) -> Simulated:
    return Simulated(w, replace(FAST, scaled=k))


def operands(w: Format) -> st.SearchStrategy[tuple[int, int]]:
    """Powers of two and their neighbours, extremes, and x near multiples and half multiples of y."""
    near = st.builds(
        lambda k, d, negative: w.wrap((-1 if negative else 1) * ((1 << k) + d)),
        st.integers(0, w.width), st.integers(-1, 1), st.booleans(),
    )  # fmt: skip
    small = st.builds(lambda x, k: w.wrap(w.signed(x) >> k), st.integers(0, w.mask), st.integers(0, w.width - 1))
    word = st.one_of(near, small, st.sampled_from((0, 1, w.mask, w.sign, w.sign - 1)), st.integers(0, w.mask))
    multiple = st.builds(
        lambda y, n, d, s: (w.wrap((w.signed(y) * w.signed(n) >> s) + d), y), word, word, st.integers(-1, 1), st.sampled_from((0, 1, w.frac)),
    )  # fmt: skip
    return st.one_of(st.tuples(word, word), multiple)


@pytest.mark.parametrize("k", [2, 4, 8, 16])
def test_every_reciprocal_keeps_its_bound(k: int) -> None:
    table = reciprocals(k)
    for i, (a, b) in enumerate(table.entries):
        assert a >> table.sizes[0] == b >> table.sizes[1] == 0
        assert all(table.within_bound(i, delta) for delta in range(1 << table.delta))


@pytest.mark.parametrize("k", [4, 8])
def test_no_entry_could_be_greater(k: int) -> None:
    """The bound finds a reciprocal that is rounded up, and an entry that belongs to a neighbour."""
    table = reciprocals(k)
    greater = Reciprocals(k, tuple((a + 1, b) for a, b in table.entries))
    shifted = Reciprocals(k, table.entries[1:] + table.entries[:1])
    for i in range(len(table.entries)):
        for wrong in (greater, shifted):
            assert not all(wrong.within_bound(i, delta) for delta in range(1 << table.delta))


@pytest.mark.parametrize(
    ("w", "k"), [(Format(8, 4), 2), (Format(8, 4), 16), (Format(16, 8), 8), (Format(32, 16), 16), (Format(64, 32), 16)], ids=str
)  # fmt: skip
def test_quotients_are_exact(w: Format, k: int) -> None:
    unit = simulated(w, k)
    index = st.integers(0, len(unit.divisions) - 1)
    corners = [
        (i, x, y)
        for i in range(len(unit.divisions))
        for x, y in ((w.sign, w.mask), (w.sign, 1), (w.sign - 1, w.sign), (w.mask, w.sign - 1), (0, 3), (5, 0))
    ]

    @settings(max_examples=8, deadline=None)
    @given(st.lists(st.builds(lambda i, xy: (i, *xy), index, operands(w)), min_size=10, max_size=20))
    @example(corners)
    def quotients(asked: list[tuple[int, int, int]]) -> None:
        unit.check(asked)

    quotients()


#: the planted source, and the operands of a quotient that it gets wrong
FAULTS = [
    # no correction
    ("carried = Cat(error,", "carried = Cat(error & 0,", (3 << 28, 3)),
    # an iteration too few
    ("left.eq(places[whole:] + 1)", "left.eq(places[whole:])", (1 << 30, 7)),
    # a table whose entries are one off
    ("init=[a | b <<", "init=[a ^ 64 | b <<", (1 << 30, 7)),
    # no sign
    ("(scale << k - 1) + negative", "(scale << k - 1)", (7 << 20, (1 << 32) - 5)),
]


@pytest.mark.parametrize(("old", "new", "operands"), FAULTS, ids=[new for _, new, _ in FAULTS])
def test_planted_faults_give_wrong_quotients(
    planted: Callable[[str, str, str], type], old: str, new: str, operands: tuple[int, int]
) -> None:
    planted("core.divider", old, new)
    unit = Simulated(Format(32, 16), FAST, divider.ScaledDivider)
    asked = [(index, *operands) for index in range(len(unit.divisions) - 1)]
    with pytest.raises(AssertionError):
        unit.check(asked)
    simulated(Format(32, 16), 16).check(asked)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ScaledDivider(8, [], [0], CORES["small"]), "no scaled divider"),
        (lambda: ScaledDivider(8, [Division(False, 9)], [0], FAST), "x is shifted"),
        (lambda: ScaledDivider(8, [Division(False, 1)], [17], FAST), "shifts of a quotient"),
        (lambda: replace(FAST, scaled=10), "2, 4, 8 or 16 digits"),
    ],
)
def test_impossible_dividers_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
