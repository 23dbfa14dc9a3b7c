"""The scaled divider: x·2^s / y, floored or rounded to nearest, a digit of k bits a cycle.

    r ≈ 1/|y| from a table;   y' = r·|y| = 1 − e,   x' = r·x·sign(y);   x'/y' = x/y, and digits of x' are almost those of x'/y'

    each cycle:  q = ⌊R⌋,   R ← 2^k·(R − q·y') = 2^k·(frac R + q·e),   Q ← 2^k·Q + q

Very-high-radix division with scaling: M. D. Ercegovac, T. Lang, P. Montuschi, IEEE Transactions on Computers 43 (1994) 909–918.

**Exact.** Scaling loses nothing: r·|y| and r·x are whole. With Y = |y|·2^z, normalised to W bits, ⌊x·2^(s + 1)/|y|⌋ has the place
s + 1 + z of x/Y as its last digit. One more digit than asked for is always found, and the result is (that quotient + ½ or 0) / 2.
With s + z = k·n + h, 0 ≤ h < k, x is first shifted by h, so that the last of n + 1 digits ends there. The divider then holds Q, so
that n may depend on y. The schedule counts on the most cycles that any y takes.

**No sign.** 2^k·y' is added to the first R, and Q begins with −1: −1·2^k + (2^k + q) = q. As |x/Y| ≤ 1, 0 ≤ R ≤ 2^(k + 1)·y' < 2^(k + 1) at
first. So a quotient of any sign is floored, and no remainder is compared with 0.

**One correction.** Let 0 < e ≤ 1/(2^(k + 1) + 1), the bound of the table. If q ≤ 2^(k + 1) − 1, then frac R + q·e < 1 + (2^(k + 1) − 1)·e
≤ 2 − 2·e = 2·y'. So the next R is less than 2^(k + 1), and its q is such a digit again. After the last, the remainder is less
than 2·y': the quotient is Q, or Q + 1 if y' can be subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.units.divider import Divider, check_shifts
from retrograd.hdl.core.units.gating import gated
from retrograd.hdl.core.units.multiplier import fits
from retrograd.hdl.core.units.reciprocal import reciprocals
from retrograd.hdl.microword import Division
from retrograd.isa.microarchitecture.micro_operations import Units

#: bits of an unsigned factor of an FPGA's multiplier
LIMB = 18


class _Plan(NamedTuple):
    """The cycles that find digits, at most."""

    root: bool
    rounded: bool
    cycles: int
    s: int


class ScaledDivider(wiring.Component):
    """The ports and results of `Divider`, with fewer cycles; roots, if it has them, are those of a `Divider`.

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
        self.plans = [_Plan(d.root, d.rounded, units.rounds(d.operation, width, d.s), d.s) for d in divisions]
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
        #: bits of y' and e behind the point, and those of e that are not always 0
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

        # ------------------------------------------------ the operands, held until the next start; the cycles before digits
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

        # ------------------------------------------------ the reciprocal in two words; x shifted, with the sign of y, and 2^k / 2
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
        # Both sums of three words have one adder behind their carries, so that nothing is behind the adder.
        following = _carried((remains[:point], *_product(m, digit, error, "digit")))
        summands = [Signal(len(remains), name=name) for name in ("summand", "carry")]
        for word, one, other in zip(summands, _carried(first), following, strict=True):
            # Behind a multiplexer Yosys would share multipliers, with multiplexers on the way of the digit.
            m.d.comb += word.eq(gated([(begins, (one << 1)[: len(word)]), (~begins, (other << k)[: len(word)])]))
        with m.If(begins | (left != 0)):
            m.d.sync += remains.eq(summands[0] + summands[1])
        with m.If(begins):
            m.d.sync += [digits.eq(-1), left.eq(places[whole:] + 1)]
        with m.Elif(left != 0):
            m.d.sync += [digits.eq((digits << k) + digit), left.eq(left - 1)]

        # ------------------------------------------------ the correction, and the place of rounding
        # The remainder is at least y' = 1 − e if it and e carry into the place of 1. From there the carry goes on into the quotient.
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
    # Zeros in front are counted in blocks of twice the size again and again: (no bit is set, the count if one is).
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
    """The bits of a word from the place `first` below its highest on, and zeros behind its last."""
    missing = max(0, first + count - len(word))
    end = len(word) - first + missing
    return Cat(Const(0, missing), word)[end - count : end]


def _carried(words: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    """Two words with the sum of three, of which the last has no bits in the first limb."""
    x, y, z = words
    carries = (x & y) | (x & z) | (y & z)
    return Cat(x[:LIMB], (x ^ y ^ z)[LIMB:]), Cat(y[:LIMB], Const(0, 1), carries[LIMB:])


def _product(m: Module, x: Any, y: Any, name: str) -> tuple[Any, Any]:
    """x·y as a sum of two words: the products of x with every other limb of y do not overlap."""
    sums: tuple[list[Any], list[Any]] = ([], [])
    ends = [0, 0]
    for at in range(0, len(y), LIMB):
        limb = y[at : at + LIMB]
        partial = Signal(len(x) + len(limb), name=f"partial_{name}_{at}")
        m.d.comb += partial.eq(x * limb)
        odd = at // LIMB % 2
        sums[odd].extend((Const(0, at - ends[odd]), partial))
        ends[odd] = at + len(partial)
    return Cat(sums[0]), Cat(sums[1])
