"""The dividers: x·2^s / y and √(x·2^s), floored or rounded to nearest.

    Divider         several digits a cycle by trial subtraction; quotients and roots
    RingDivider     a stage for each thread, without trial; quotients and roots
    ScaledDivider   a digit of k bits a cycle, by scaling the divisor close to 1; quotients

`ScaledDivider` reads a reciprocal from a table. Source: M. D. Ercegovac, T. Lang, P. Montuschi, Very-high-radix division with prescaling and
selection by rounding, IEEE Transactions on Computers 43 (1994) 909–918.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.units import fits, gated
from retrograd.hdl.microword import Division
from retrograd.isa.microarchitecture.micro_operations import DEFAULT_UNITS, Units


class _Plan(NamedTuple):
    """Cycles of a division, and the zeros before the first bit of x that align the last digit with digit 0."""

    root: bool
    rounded: bool
    cycles: int
    zeros: int


def plan(division: Division, width: int, digits: int = DEFAULT_UNITS.digits, roots: int | None = None) -> _Plan:
    """A quotient has one digit for each bit of x·2^s, a root one for every two bits. Rounding takes one more digit.

    `roots`: digits of a root in a cycle, if they are not as many as of a quotient.
    """
    bits = (roots or digits) * 2 if division.root else digits
    down = _bits(division, width)
    cycles = Units(digits=digits, roots=roots).rounds(division.operation, width, division.s)
    return _Plan(division.root, division.rounded, cycles, cycles * bits - down)


def _bits(division: Division, width: int) -> int:
    """Bits that are shifted in: the bits of x·2^s, and the zeros after them."""
    return width + division.s + division.rounded * (2 if division.root else 1)


def check_shifts(width: int, divisions: Sequence[Division], shifts: Sequence[int]) -> None:
    """Raise ValueError for a shift of x or of a quotient that is out of range."""
    if not all(0 <= d.s <= width for d in divisions):
        raise ValueError(f"x is shifted by 0 to {width}")
    if not all(0 <= s <= 2 * width for s in shifts):
        raise ValueError(f"shifts of a quotient go from 0 to {2 * width}")


class Divider(wiring.Component):
    """Digit recurrence: one cycle for magnitudes, some digits a cycle, one for rounding and sign. The result is held until the next start.

    The next bits of x are shifted into the remainder. The digit is 1 if y (for a root, 4·root + 1) can be subtracted. With more than
    two digits a cycle, digits are found in pairs, as digits to the base 4: the greatest d for which d·y (for a root,
    d·(8·root + d)) can be subtracted. Raises ValueError for a shift out of range, and for an odd number of such digits.
    """

    def __init__(
        self,
        width: int,
        divisions: Sequence[Division],
        shifts: Sequence[int],
        digits: int = DEFAULT_UNITS.digits,
        flags: bool = False,
        roots: int | None = None,
    ) -> None:
        """`flags`: with a port for whether the result is the whole quotient; `roots`: see `plan`."""
        if digits > 2 and digits % 2:
            raise ValueError(f"{digits} digits are no pairs")
        check_shifts(width, divisions, shifts)
        self.width = width
        self.digits = digits
        self.flags = flags
        self.divisions = tuple(divisions)
        self.plans = [plan(division, width, digits, roots) for division in divisions]
        self.shifts = tuple(shifts)
        #: The remainder has two bits more. It is less than y, and at most twice the root.
        self.rest_bits = width
        if self.plans and all(p.root for p in self.plans):
            self.rest_bits = max(_bits(d, width) for d in divisions) // 2
        self.quotient_bits = max(width, *(_bits(d, width) // (2 if d.root else 1) + 1 for d in divisions), 0)
        super().__init__(
            {
                #: start, with the operation of index `division`
                "start": In(1),
                "division": In(range(max(2, len(divisions)))),
                "x": In(width),
                "y": In(width),
                #: index into the shifts
                "shift": In(range(max(2, len(shifts)))),
                #: the result, once all digits are found
                "result": Out(width),
                **({"fits": Out(1)} if flags else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.width
        # Up to two bits for each digit are shifted in a cycle, so x is extended by one zero less than that at its
        # front.
        most = 2 * self.digits - 1
        down = Signal(width + most)
        divisor = Signal(width)
        remains = Signal(self.rest_bits + 2)
        digits = Signal(self.quotient_bits)
        left = Signal(range(width + 1))
        is_root, rounded, negative, void = Signal(), Signal(), Signal(), Signal()
        kinds = {p.root for p in self.plans}
        x: Any = _magnitude(self.x)
        if len(kinds) == 1:
            # Half of the hardware serves the other kind of operation, and a root has no negative operand.
            m.d.comb += is_root.eq(True in kinds)
            x = self.x if True in kinds else x

        # Pairs of digits are computed in all cycles, so that no gates stand before the subtractions.
        rest: Any = remains
        found: Any = digits
        for k in range(self.digits // 2 if self.digits > 2 else 0):
            rest, found = self._pair(m, rest, found, is_root, divisor, down, k)
        with m.If(self.start):
            m.d.sync += [
                divisor.eq(_magnitude(self.y)),
                remains.eq(0),
                digits.eq(0),
            ]
            with m.Switch(self.division):
                for index, p in enumerate(self.plans):
                    with m.Case(index):
                        if len(kinds) > 1:
                            m.d.sync += is_root.eq(p.root)
                        m.d.sync += [
                            rounded.eq(p.rounded),
                            left.eq(p.cycles),
                            down.eq(x << (most - p.zeros)),
                            negative.eq(0 if p.root else self.x[-1] ^ self.y[-1]),
                            void.eq(self.x[-1] if p.root else self.y == 0),
                        ]
        with m.Elif(left != 0):
            for k in range(self.digits if self.digits <= 2 else 0):
                rest, found = self._digit(m, rest, found, is_root, divisor, down, k, k)
            m.d.sync += [
                left.eq(left - 1),
                remains.eq(rest),
                digits.eq(found),
                down.eq(Mux(is_root, down << 2 * self.digits, down << self.digits)),
            ]

        # ⌊−q − r/y⌋ is ¬q = −q − 1 for a nonzero remainder, and −q otherwise. Rounding takes one more digit: ⌊z + ½⌋
        # = ⌊(⌊2z⌋ + 1) / 2⌋.
        bits = self.quotient_bits + 1
        floor, quotient = Signal(signed(bits)), Signal(signed(bits))
        m.d.comb += floor.eq(Mux(negative, ~digits.as_signed(), digits) + Mux(negative, remains == 0, 0) + rounded)
        m.d.comb += quotient.eq(Mux(rounded, floor >> 1, floor))
        with m.Switch(self.shift):
            for index, s in enumerate(self.shifts):
                with m.Case(index):
                    m.d.comb += self.result.eq(Mux(void, 0, quotient >> s))
                    if self.flags:
                        m.d.comb += self.fits.eq(void | fits(quotient >> s, width))
        return m

    def _digit(
        self, m: Module, remains: Any, digits: Any, is_root: Any, divisor: Any, down: Any, k: int, at: int = 0
    ) -> tuple[Any, Any]:
        """The remainder and the digits after one more digit, which takes the bits of x from place `at` on."""
        bits = self.rest_bits + 4
        top = Signal(bits, name=f"top_{k}")
        taken = Signal(bits, name=f"taken_{k}")
        difference = Signal(bits + 1, name=f"difference_{k}")
        m.d.comb += [
            top.eq(
                Mux(
                    is_root,
                    Cat(down[len(down) - 2 * at - 2 : len(down) - 2 * at], remains),
                    Cat(down[len(down) - 1 - at], remains),
                )
            ),
            taken.eq(Mux(is_root, Cat(Const(1, 2), digits), divisor)),
            difference.eq(top - taken),
        ]
        digit = ~difference[-1]
        rest = Signal(self.rest_bits + 2, name=f"rest_{k}")
        m.d.comb += rest.eq(Mux(digit, difference, top))
        return rest, Cat(digit, digits[:-1])

    def _pair(
        self, m: Module, remains: Any, digits: Any, is_root: Any, divisor: Any, down: Any, k: int
    ) -> tuple[Any, Any]:
        """The remainder and the digits after one more digit to the base 4."""
        bits = self.rest_bits + 6
        top, rest = Signal(bits, name=f"top_{k}"), Signal(self.rest_bits + 2, name=f"rest_{k}")
        places = (down[len(down) - 4 * k - 4 : len(down) - 4 * k], down[len(down) - 2 * k - 2 : len(down) - 2 * k])
        m.d.comb += top.eq(Mux(is_root, Cat(places[0], remains), Cat(places[1], remains)))
        # d·y = y, 2y, 2y + y; d·(8·root + d) = 8·root + 1, 16·root + 4, (16·root + 9) + 8·root
        terms = [
            (Mux(is_root, Cat(Const(1, 3), digits), divisor), Const(0)),
            (Mux(is_root, Cat(Const(4, 4), digits), divisor << 1), Const(0)),
            (Mux(is_root, Cat(Const(9, 4), digits), divisor << 1), Mux(is_root, Cat(Const(0, 3), digits), divisor)),
        ]
        left = []
        for d, (x, y) in enumerate(terms, 1):
            first, second = Signal(bits, name=f"first_{k}_{d}"), Signal(bits, name=f"second_{k}_{d}")
            difference = Signal(bits + 1, name=f"difference_{k}_{d}")
            m.d.comb += [first.eq(x), second.eq(y)]
            if d < 3:
                m.d.comb += difference.eq(top - first)
            else:
                # top − first − second = sum + 2·carry + 1 with complements, so that only one carry ripples
                a, b, c = (Cat(word, bit) for word, bit in ((top, 0), (~first, 1), (~second, 1)))
                carry = (a & b) | (a & c) | (b & c)
                m.d.comb += difference.eq((a ^ b ^ c) + Cat(Const(1, 1), carry) + 1)
            left.append(difference)
        one, two, three = (~word[-1] for word in left)
        m.d.comb += rest.eq(Mux(three, left[2], Mux(two, left[1], Mux(one, left[0], top))))
        return rest, Cat(three | (one & ~two), two, digits[:-2])


class RingDivider(Divider):
    """A divider for each thread: a ring of as many stages as there are threads. Each finds two digits of a quotient, or one of a root.

        quotient:  r := 2r + bit ∓ y, twice        root:  r := 4r + bits ∓ (4·root + 1, or + 3 after a digit 0)
        −, and the digit before is 1, where r ≥ 0;  + where r < 0

    Nothing is restored: a remainder below 0 is of the digit 0, and the next step makes up for it. A stage consists of two additions, and
    the first of them adds nothing to a root.

    A division that starts in a turn of its thread returns to the first stage in the thread's next turn, with the digits of each stage. The
    divisions of threads follow each other around the ring, so none waits for another. The result is that of the state in the first stage:
    `result`, selected by `shift`, belongs to the division in the first stage a cycle before.
    """

    def __init__(
        self, width: int, divisions: Sequence[Division], shifts: Sequence[int], stages: int, flags: bool = False,
        overlaps: bool = False,
    ) -> None:  # fmt: skip
        """`overlaps`: a thread may start a division in the turn in which its last one returns."""
        super().__init__(width, divisions, shifts, 2 * stages, flags, roots=stages)
        # |y| ≤ 2^(W − 1), and −y ≤ r < y. A root of d digits is below 2^d; −2·root − 1 ≤ r ≤ 2·root, and r takes
        # two bits more before the second addition.
        root_bits = max(((_bits(d, width) + 1) // 2 for d in self.divisions if d.root), default=0)
        bits = max(width, root_bits + 3 if root_bits else 0)
        #: the state of a division in each stage
        self.state = data.StructLayout(
            {
                "down": width + 2 * stages - 1,
                # |y|; 0 for a root
                "divisor": bits,
                "remains": signed(bits),
                # The signs of remainders: each is the opposite of a digit. A root has its digits in every second
                # place.
                "signs": max(self.quotient_bits, 2 * root_bits),
                **dict.fromkeys(("root", "rounded", "negative", "void"), 1),
            }
        )
        self.stages = [Signal(self.state, name=f"stage{k}", reset_less=True) for k in range(stages)]
        #: the state that returns to the first stage
        self.returned = Signal(self.state, reset_less=True) if overlaps else self.stages[0]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width, bits, stages = self.width, self.quotient_bits + 1, self.stages
        most, rest_bits = 2 * len(stages) - 1, len(stages[0].remains)
        kinds = {p.root for p in self.plans}
        for k, state in enumerate(stages):
            # A ring for one kind of operation has no gates for the other.
            root = state.root if len(kinds) > 1 else Const(True in kinds)
            half = self._added(m, Cat(state.down[-1], state.remains), state.divisor, rest_bits, f"half_{k}")
            beside = Cat(Const(1, 1), state.remains[-1], ~state.signs[::2])[:rest_bits]
            taken = state.divisor | gated([(root, beside)])
            rest = self._added(m, Cat(state.down[-2], half), taken, rest_bits, f"rest_{k}")
            behind = [stages[(k + 1) % len(stages)]]
            if state is stages[-1] and self.returned is not stages[0]:
                behind.append(self.returned)
            for after in behind:
                m.d.sync += [
                    after.eq(state),
                    after.remains.eq(rest),
                    after.signs.eq(Cat(rest[-1], half[-1], state.signs[:-2])),
                    after.down.eq(state.down << 2),
                ]
        first = stages[0]
        x = Mux(self.x[-1], (-self.x)[:width], self.x) if False in kinds else self.x
        with m.If(self.start):
            m.d.sync += [first.divisor.eq(_magnitude(self.y)), first.remains.eq(0), first.signs.eq(-1)]
            with m.Switch(self.division):
                for index, p in enumerate(self.plans):
                    with m.Case(index):
                        m.d.sync += [
                            first.root.eq(p.root),
                            first.rounded.eq(p.rounded),
                            first.down.eq(x << (most - p.zeros)),
                            first.negative.eq(0 if p.root else self.x[-1] ^ self.y[-1]),
                            first.void.eq(self.x[-1] if p.root else self.y == 0),
                        ]
                        if p.root:
                            m.d.sync += first.divisor.eq(0)
        first = self.returned

        # See `Divider`; what is added to the digits is known a cycle before. ⌊(z + 1) / 2⌋ = ⌊z/2⌋ + (z mod 2). The
        # remainder of a quotient is 0 if r is 0, or, after a digit 0, −y.
        negative, y, r = first.negative, first.divisor, first.remains.as_unsigned()
        floor, whole, more, void = Signal(signed(bits)), Signal(signed(bits)), Signal(), Signal()
        digits = ~first.signs[: self.quotient_bits]
        found = Mux(first.root, ~first.signs[::2], digits) if True in kinds else digits
        # r + y = 0, without carries
        exact = (r == 0) | ((r ^ y ^ Cat(Const(0, 1), r | y)[:rest_bits]) == 0)
        m.d.comb += floor.eq(Mux(negative, ~found.as_signed(), found))
        m.d.sync += [
            whole.eq(Mux(first.rounded, floor >> 1, floor)),
            more.eq((negative & exact) | (first.rounded & floor[0])),
            void.eq(first.void),
        ]
        quotient = Signal(signed(bits))
        m.d.comb += quotient.eq(whole + more)
        with m.Switch(self.shift):
            for index, s in enumerate(self.shifts):
                with m.Case(index):
                    m.d.comb += self.result.eq(Mux(void, 0, quotient >> s))
                    if self.flags:
                        m.d.comb += self.fits.eq(void | self._equal_from(whole, more, s + width - 1))
        return m

    @staticmethod
    def _equal_from(whole: Any, more: Any, place: int) -> Any:
        """Whether the bits of whole + more, more ≤ 1, are equal from this place on, without waiting for the sum.

        A carry reaches the place where all bits below are 1. The bits there are then equal if they were 1…1 or 1…10.
        """
        place = min(place, len(whole) - 1)
        low, high = whole[:place], whole[place:]
        return Mux(more & low.all(), high[1:].all(), high.all() | ~high.any())

    def _added(self, m: Module, shifted: Any, taken: Any, bits: int, name: str) -> Any:
        """The next remainder: shifted − taken where the last remainder is not negative, else shifted + taken."""
        plus, rest = shifted[-1], Signal(signed(bits), name=name)
        # a − b, or a − ¬b − 1. The borrow is one more bit below; no inverter stands before the sum.
        m.d.comb += rest.eq((Cat(Const(0, 1), shifted[:bits]) - Cat(plus, taken ^ plus.replicate(bits)))[1 : bits + 1])
        return rest


def _magnitude(x: Any) -> Any:
    return Mux(x[-1], (-x)[: len(x)], x)


# -----------------------------------------------------------------------------
# A table of reciprocals: r ≈ 1/Y from below, for 1/2 ≤ Y < 1, by linear interpolation.
#
#     Y = 0.1 i δ … in bits;   r = 1 + ⌊(A[i] − ⌊B[i]·δ / 2^(fine − guard)⌋) / 2^guard⌋ / 2^(k + 2)
#
#     0 < e ≤ 1 / (2^(k + 1) + 1)   with   r·Y = 1 − e
#
# A division with k digits a cycle needs this bound on e (see `ScaledDivider`). r has k + 2 places, so rounding costs
# at most 2^−(k + 2).
# Y is cut behind δ, in place k + 4, and a line replaces the curve: together at most as much again. A[i] is the
# greatest for which no r exceeds 1/Y.


@dataclass(frozen=True)
class Reciprocals:
    """The table for k digits a cycle: `entries[i]` = (A, B)."""

    k: int
    entries: tuple[tuple[int, int], ...] = ()

    #: bits of A behind the last place of r
    guard = 4

    @property
    def places(self) -> int:
        """Bits of r behind the point."""
        return self.k + 2

    @property
    def index(self) -> int:
        """Bits of i."""
        return self.k // 2 + 1

    @property
    def delta(self) -> int:
        """Bits of δ."""
        return self.k + 3 - self.index

    @property
    def fine(self) -> int:
        """Bits of B, and its bits behind the last place of r."""
        return self.index + 3

    @property
    def sizes(self) -> tuple[int, int]:
        """Bits of A and of B."""
        return self.places + self.guard, self.fine

    def fraction(self, i: int, delta: int) -> int:
        """(r − 1)·2^places."""
        a, b = self.entries[i]
        return (a - (b * delta >> self.fine - self.guard)) >> self.guard

    def within_bound(self, i: int, delta: int) -> bool:
        """Whether 0 < e ≤ 1 / (2^(k + 1) + 1), for all Y that begin with 1, i, δ. e is least at the highest, which is below `low` + 1."""
        one = 1 << self.places + 1 + self.index + self.delta
        low = (1 << self.index + self.delta) + (i << self.delta) + delta
        r = (1 << self.places) + self.fraction(i, delta)
        return r * (low + 1) <= one and (one - r * low) * ((2 << self.k) + 1) <= one


@cache
def reciprocals(k: int) -> Reciprocals:
    """The table for k of 2 to 16.

    >>> reciprocals(2).entries[0]
    (240, 26)
    """
    shape = Reciprocals(k)
    places, guard, fine, delta = shape.places, shape.guard, shape.fine, 1 << shape.delta
    first = 1 << shape.index + shape.delta
    # the greatest (r − 1)·2^places, for Y below (y + 1) / (2·first); and 1/Y with the places of B, where entries meet
    most = (2 * first << places) // np.arange(first + 1, 2 * first + 1, dtype=np.int64) - (1 << places)
    ends = [(2 * first << places + fine) // y for y in range(first, 2 * first + 1, delta)]
    d = np.arange(delta, dtype=np.int64)
    entries = []
    for i, (high, low) in enumerate(pairwise(ends)):
        b = (high - low + delta // 2) // delta
        a = np.min(((most[i * delta : (i + 1) * delta] + 1) << guard) - 1 + (b * d >> fine - guard))
        entries.append((int(a), b))
    return Reciprocals(k, tuple(entries))


# -----------------------------------------------------------------------------
# The scaled divider: x·2^s / y, floored or rounded to nearest, a digit of k bits a cycle.
#
#     r ≈ 1/|y| from a table;   y' = r·|y| = 1 − e,   x' = r·x·sign(y);   x'/y' = x/y, and digits of x' are almost those of x'/y'
#
#     each cycle:  q = ⌊R⌋,   R ← 2^k·(R − q·y') = 2^k·(frac R + q·e),   Q ← 2^k·Q + q
#
# **Exact.** Scaling loses nothing: r·|y| and r·x are whole. With Y = |y|·2^z, normalised to W bits, ⌊x·2^(s +
# 1)/|y|⌋ has the place
# s + 1 + z of x/Y as its last digit. One more digit than asked for is always found, and the result is (that quotient
# + ½ or 0) / 2.
# With s + z = k·n + h, 0 ≤ h < k, x is first shifted by h, so that the last of n + 1 digits ends there. The divider
# then holds Q, so
# that n may depend on y. The schedule counts on the most cycles that any y takes.
#
# **No sign.** 2^k·y' is added to the first R, and Q begins with −1: −1·2^k + (2^k + q) = q. As |x/Y| ≤ 1, 0 ≤ R ≤
# 2^(k + 1)·y' < 2^(k + 1) at
# first. So a quotient of any sign is floored, and no remainder is compared with 0.
#
# **One correction.** Let 0 < e ≤ 1/(2^(k + 1) + 1), the bound of the table. If q ≤ 2^(k + 1) − 1, then frac R + q·e
# < 1 + (2^(k + 1) − 1)·e
# ≤ 2 − 2·e = 2·y'. So the next R is less than 2^(k + 1), and its q is such a digit again. After the last, the
# remainder is less
# than 2·y': the quotient is Q, or Q + 1 if y' can be subtracted.

#: bits of an unsigned factor of an FPGA's multiplier
CARRY_LIMB = 18


class _ScaledPlan(NamedTuple):
    """The cycles that find digits, at most."""

    root: bool
    rounded: bool
    cycles: int
    s: int


class ScaledDivider(wiring.Component):
    """The ports and results of `Divider`, with fewer cycles. Roots, if it has them, are computed by a `Divider`.

    Cycles: magnitude of y; normalise it; read A and B, and shift x; the reciprocal; its products; some for digits; the correction.
    The result is held until the next start. Raises ValueError for a shift out of range, and for units without a scaled divider.
    """

    def __init__(
        self,
        width: int,
        divisions: Sequence[Division],
        shifts: Sequence[int],
        units: Units,
        roots: bool = True,
        flags: bool = False,
    ) -> None:
        """`units`: digits in each cycle; `roots`: with the divider for roots; `flags`: with a port for whether the result is the whole quotient."""
        if units.scaled is None:
            raise ValueError("these units have no scaled divider")
        check_shifts(width, divisions, shifts)
        self.width, self.k, self.flags = width, units.scaled, flags
        self.plans = [_ScaledPlan(d.root, d.rounded, units.rounds(d.operation, width, d.s), d.s) for d in divisions]
        self.shifts = tuple(shifts)
        #: of ⌊x·2^(s + 1) / y⌋, with a sign
        self.quotient_bits = width + 2 + max((p.s for p in self.plans if not p.root), default=0)
        self.reciprocals = table = reciprocals(self.k)
        #: A[i] below B[i]
        self.entries = MemoryData(
            shape=sum(table.sizes),
            depth=len(table.entries),
            init=[a | b << table.sizes[0] for a, b in table.entries],
        )
        #: bits of y' and e after the point, and the bits of e that are not always 0
        self.point = width + table.places
        self.error_bits = self.point - self.k - 1
        #: index of a root among the divider's own divisions
        self.rooted = {i: k for k, i in enumerate(i for i, d in enumerate(divisions) if d.root)} if roots else {}
        found = [divisions[i] for i in self.rooted]
        self.roots = Divider(width, found, [0], units.digits, flags) if found else None
        super().__init__(
            {
                #: start, with the operation of index `division`
                "start": In(1),
                "division": In(range(max(2, len(divisions)))),
                "x": In(width),
                "y": In(width),
                #: index into the shifts
                "shift": In(range(max(2, len(shifts)))),
                #: the result, once all digits are found
                "result": Out(width),
                **({"fits": Out(1)} if flags else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width, k, table, point = self.width, self.k, self.reciprocals, self.point
        quotients = [(index, p) for index, p in enumerate(self.plans) if not p.root]
        most = max((p.s for _, p in quotients), default=0)

        # ------------------------------------------------ the operands, held until the next start; the cycles before
        # digits
        x = Signal(width)
        divisor = Signal(width)
        negative = Signal()
        rounded = Signal()
        void = Signal()
        s = Signal(range(most + 1))
        ready = Signal(4)
        m.d.sync += ready.eq(Cat(self.start, ready[:-1]))
        with m.If(self.start):
            m.d.sync += [
                x.eq(self.x),
                divisor.eq(Mux(self.y[-1], -self.y, self.y)),
                negative.eq(self.y[-1]),
                void.eq(self.y == 0),
            ]
            with m.Switch(self.division):
                for index, p in quotients:
                    with m.Case(index):
                        m.d.sync += [rounded.eq(p.rounded), s.eq(p.s)]

        # ------------------------------------------------ y normalised, and the places from the first digit of x / y on
        zeros, top = _normalised(m, divisor)
        scale = Signal(width)
        places = Signal(range(width + most))
        m.d.sync += [scale.eq(top), places.eq(s + zeros)]

        # ------------------------------------------------ the reciprocal in two words; x shifted, with the sign of
        # y, and 2^k / 2
        m.submodules.entries = entries = Memory(self.entries)
        port = entries.read_port()
        a, b = port.data[: table.sizes[0]], port.data[table.sizes[0] :]
        base = Signal(table.sizes[0])
        slope = Signal(table.sizes[1])
        m.d.comb += port.addr.eq(_leading(top, 1, table.index))
        m.d.sync += [base.eq(a), slope.eq(b)]
        shifted = Signal(signed(width + k))
        dividend = Signal(width + k)
        whole = k.bit_length() - 1
        m.d.comb += shifted.eq(x.as_signed() << places[:whole])
        m.d.sync += dividend.eq((shifted ^ negative.replicate(width + k)) + (scale << k - 1) + negative)

        # ------------------------------------------------ products with r, whose first bit is always 1
        line = Signal(table.sizes[1] + table.delta)
        r = Signal(table.places)
        m.d.comb += line.eq(slope * _leading(scale, 1 + table.index, table.delta))
        m.d.sync += r.eq((base - line[table.fine - table.guard :]) >> table.guard)
        scaled = (scale << table.places, *_product(m, r, scale, "scale"))
        first = (dividend << table.places, *_product(m, r, dividend, "dividend"))

        # ------------------------------------------------ digits
        error = Signal(self.error_bits)
        remains = Signal(point + k + 1)
        digits = Signal(signed(self.quotient_bits))
        left = Signal(range((most + width - 1) // k + 2))
        digit = Signal(k + 1)
        begins = Signal()
        m.d.sync += error.eq(-sum(scaled))
        m.d.comb += [digit.eq(remains[point:]), begins.eq(ready[-1])]
        # Each sum of three words has an adder after its carries, and no logic after the adder.
        following = _carried((remains[:point], *_product(m, digit, error, "digit")))
        summands = [Signal(len(remains), name=name) for name in ("summand", "carry")]
        for word, one, other in zip(summands, _carried(first), following, strict=True):
            # Behind a multiplexer, Yosys would share the multipliers and put multiplexers into the path of the digit.
            m.d.comb += word.eq(gated([(begins, (one << 1)[: len(word)]), (~begins, (other << k)[: len(word)])]))
        with m.If(begins | (left != 0)):
            m.d.sync += remains.eq(summands[0] + summands[1])
        with m.If(begins):
            m.d.sync += [digits.eq(-1), left.eq(places[whole:] + 1)]
        with m.Elif(left != 0):
            m.d.sync += [digits.eq((digits << k) + digit), left.eq(left - 1)]

        # ------------------------------------------------ the correction, and the place of rounding
        # The remainder is at least y' = 1 − e if its sum with e carries into the place of 1. The carry continues from
        # there into the quotient.
        rest = remains[k : k + point]
        carried = Cat(error, Const(0, point - len(error)), remains[k + point], digits[0] & rounded)
        total = Cat(rest, digits[0] ^ rounded, digits[1:]) + carried
        quotient = Signal(signed(self.quotient_bits - 1))
        m.d.comb += quotient.eq(total[point + 1 :])
        with m.Switch(self.shift):
            for index, shift in enumerate(self.shifts):
                with m.Case(index):
                    m.d.comb += self.result.eq(Mux(void, 0, quotient >> shift))
                    if self.flags:
                        m.d.comb += self.fits.eq(void | fits(quotient >> shift, width))
        self._roots(m)
        return m

    def _roots(self, m: Module) -> None:
        if self.roots is None:
            return
        m.submodules.roots = roots = self.roots
        is_root = Signal()
        held = Signal()
        m.d.comb += [roots.x.eq(self.x), roots.y.eq(self.y), roots.start.eq(self.start & is_root)]
        with m.Switch(self.division):
            for index, own in self.rooted.items():
                with m.Case(index):
                    m.d.comb += [is_root.eq(1), roots.division.eq(own)]
        with m.If(self.start):
            m.d.sync += held.eq(is_root)
        with m.If(held):
            m.d.comb += self.result.eq(roots.result)
            if self.flags:
                m.d.comb += self.fits.eq(roots.fits)


def _normalised(m: Module, word: Any) -> tuple[Any, Any]:
    """(z, word·2^z), where its highest bit is set. The word has a power of two of bits."""
    # Leading zeros are counted in blocks, whose size doubles in each round: (whether no bit is set, the count if a
    # bit is set).
    blocks: list[tuple[Any, list[Any]]] = [(~bit, []) for bit in word]
    while len(blocks) > 1:
        blocks = [
            (low & high, [*(Mux(high, c, d) for c, d in zip(below, above, strict=True)), high])
            for (low, below), (high, above) in zip(blocks[::2], blocks[1::2], strict=True)
        ]
    zeros = Signal(len(blocks[0][1]), name="zeros")
    m.d.comb += zeros.eq(Cat(blocks[0][1]))
    for k in reversed(range(len(zeros))):
        moved = Signal(len(word), name=f"moved_{1 << k}")
        m.d.comb += moved.eq(Mux(zeros[k], word << (1 << k), word))
        word = moved
    return zeros, word


def _leading(word: Any, first: int, count: int) -> Any:
    """The bits of a word from the place `first` below its highest bit on, followed by zeros."""
    missing = max(0, first + count - len(word))
    end = len(word) - first + missing
    return Cat(Const(0, missing), word)[end - count : end]


def _carried(words: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    """Two words with the sum of three, of which the last has no bits in the first limb."""
    x, y, z = words
    carries = (x & y) | (x & z) | (y & z)
    return Cat(x[:CARRY_LIMB], (x ^ y ^ z)[CARRY_LIMB:]), Cat(y[:CARRY_LIMB], Const(0, 1), carries[CARRY_LIMB:])


def _product(m: Module, x: Any, y: Any, name: str) -> tuple[Any, Any]:
    """x·y as a sum of two words: the products of x with every other limb of y do not overlap."""
    sums: tuple[list[Any], list[Any]] = ([], [])
    ends = [0, 0]
    for at in range(0, len(y), CARRY_LIMB):
        limb = y[at : at + CARRY_LIMB]
        partial = Signal(len(x) + len(limb), name=f"partial_{name}_{at}")
        m.d.comb += partial.eq(x * limb)
        odd = at // CARRY_LIMB % 2
        sums[odd].extend((Const(0, at - ends[odd]), partial))
        ends[odd] = at + len(partial)
    return Cat(sums[0]), Cat(sums[1])
