"""The divider: x·2^s / y and √(x·2^s), floored or rounded to nearest, several digits a cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.units.multiplier import fits
from retrograd.hdl.microword import Division
from retrograd.isa.microarchitecture.micro_operations import DEFAULT_UNITS, Units


class _Plan(NamedTuple):
    """Cycles of a division, and the zeros before the first bit of x that align the last digit with digit 0."""

    root: bool
    rounded: bool
    cycles: int
    zeros: int


def plan(division: Division, width: int, digits: int = DEFAULT_UNITS.digits) -> _Plan:
    """A quotient has one digit for each bit of x·2^s, a root one for every two bits. Rounding takes one more digit."""
    bits = digits * (2 if division.root else 1)
    down = _bits(division, width)
    cycles = Units(digits=digits).rounds(division.operation, width, division.s)
    return _Plan(division.root, division.rounded, cycles, cycles * bits - down)


def _bits(division: Division, width: int) -> int:
    """Bits that are shifted in: those of x·2^s, and the zeros behind them."""
    return width + division.s + division.rounded * (2 if division.root else 1)


def check_shifts(width: int, divisions: Sequence[Division], shifts: Sequence[int]) -> None:
    """Raise ValueError for a shift of x or of a quotient that is out of range."""
    if not all(0 <= d.s <= width for d in divisions):
        raise ValueError(f"x is shifted by 0 to {width}")
    if not all(0 <= s <= 2 * width for s in shifts):
        raise ValueError(f"shifts of a quotient go from 0 to {2 * width}")


class Divider(wiring.Component):
    """Digit recurrence: one cycle for magnitudes, some digits a cycle, one for rounding and sign. The result is held until the next start.

    The next bits of x are shifted into the remainder. The digit is 1 if y, or for a root 4·root + 1, can be subtracted. With more than
    two digits a cycle, they are found in pairs, as digits to the base 4: the greatest d for which d·y, or for a root
    d·(8·root + d), can be subtracted. Raises ValueError for a shift out of range, and for pairs of digits that are not whole.
    """

    def __init__(
        self,
        width: int,
        divisions: Sequence[Division],
        shifts: Sequence[int],
        digits: int = DEFAULT_UNITS.digits,
        flags: bool = False,
    ) -> None:
        """`flags`: with a port for whether the result is the whole quotient."""
        if digits > 2 and digits % 2:
            raise ValueError(f"{digits} digits are no pairs")
        check_shifts(width, divisions, shifts)
        self.width = width
        self.digits = digits
        self.flags = flags
        self.divisions = tuple(divisions)
        self.plans = [plan(division, width, digits) for division in divisions]
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
        # Up to two bits for each digit are shifted in each cycle, so x is extended by leading zeros, one fewer.
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
            # Half of the hardware is for the other kind, and a root has no negative operand.
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
                rest, found = self._digit(m, rest, found, is_root, divisor, down, k)
            m.d.sync += [
                left.eq(left - 1),
                remains.eq(rest),
                digits.eq(found),
                down.eq(Mux(is_root, down << 2 * self.digits, down << self.digits)),
            ]

        # ⌊−q − r/y⌋ is ¬q = −q − 1 for a nonzero remainder, and −q otherwise. Rounding takes one more digit: ⌊z + ½⌋ = ⌊(⌊2z⌋ + 1) / 2⌋.
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
        self, m: Module, remains: Any, digits: Any, is_root: Any, divisor: Any, down: Any, k: int
    ) -> tuple[Any, Any]:
        """The remainder and the digits after one more digit."""
        bits = self.rest_bits + 4
        top = Signal(bits, name=f"top_{k}")
        taken = Signal(bits, name=f"taken_{k}")
        difference = Signal(bits + 1, name=f"difference_{k}")
        m.d.comb += [
            top.eq(
                Mux(
                    is_root,
                    Cat(down[len(down) - 2 * k - 2 : len(down) - 2 * k], remains),
                    Cat(down[len(down) - 1 - k], remains),
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
        """The remainder and the digits after two more digits, which are one to the base 4."""
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
                # top − first − second = sum + 2·carry + 1 with complements, so that only one carry runs through
                a, b, c = (Cat(word, bit) for word, bit in ((top, 0), (~first, 1), (~second, 1)))
                carry = (a & b) | (a & c) | (b & c)
                m.d.comb += difference.eq((a ^ b ^ c) + Cat(Const(1, 1), carry) + 1)
            left.append(difference)
        one, two, three = (~word[-1] for word in left)
        m.d.comb += rest.eq(Mux(three, left[2], Mux(two, left[1], Mux(one, left[0], top))))
        return rest, Cat(three | (one & ~two), two, digits[:-2])


def _magnitude(x: Any) -> Any:
    return Mux(x[-1], (-x)[: len(x)], x)
