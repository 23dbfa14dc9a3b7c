"""The multiplier: ⌊(x·y + h) / 2^s⌋ for the shifts s and the rounding constants h of the microcode."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.units.gating import gated

#: bits of the limbs that are multiplied: those of an FPGA's multiplier, signed or unsigned
LIMB = 16


class Multiplier(wiring.Component):
    """Three cycles: partial products; their sum with h; the shift. The product is held until the next.

    In two cycles, registers stand within the sum: before its last addition, of two words. The first has the partial products of limbs in the
    same place of x and y, which do not overlap. The second is the sum of all others with h.

    Raises ValueError for a shift of the whole product's length or more, and for an h that may overflow the product.
    """

    def __init__(
        self,
        width: int,
        shifts: Sequence[int],
        halves: Sequence[int] = (0,),
        cycles: int = 3,
        tested: Collection[int] | None = None,
    ) -> None:
        """`tested`: with a port for whether the result is the whole product, for these of the shifts."""
        if not all(0 <= s <= 2 * width for s in shifts):
            raise ValueError(f"shifts of a product go from 0 to {2 * width}")
        if not all(0 <= h < 1 << width for h in halves):
            raise ValueError(f"what is added to a product has at most {width} bits")
        if cycles not in (2, 3):
            raise ValueError(f"a product takes 2 or 3 cycles, not {cycles}")
        self.width = width
        self.halves = tuple(halves)
        self.shifts = tuple(shifts)
        self.cycles = cycles
        self.tested = frozenset(tested or ())
        self.flags = tested is not None
        super().__init__(
            {
                #: multiply x and y
                "start": In(1),
                "x": In(width),
                "y": In(width),
                #: index of h
                "half": In(range(max(2, len(halves)))),
                #: index of s
                "shift": In(range(max(2, len(shifts)))),
                #: the result, from the last cycle on
                "result": Out(width),
                **({"fits": Out(1)} if self.flags else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.width
        limb = min(LIMB, width)

        # All limbs but the top one are unsigned. One more bit makes every partial product one of signed numbers.
        def limbs(word: Signal) -> list[Signal]:
            found = []
            for at in range(0, width, limb):
                part = Signal(signed(limb + 1), name=f"limb_{at}")
                m.d.comb += part.eq(word[at:].as_signed() if at + limb == width else word[at : at + limb])
                found.append(part)
            return found

        first = m.d.sync if self.cycles == 3 else m.d.comb
        partials: dict[tuple[int, int], Signal] = {}
        for i, a in enumerate(limbs(self.x)):
            for j, b in enumerate(limbs(self.y)):
                partial = partials[i, j] = Signal(signed(2 * limb + 2), name=f"partial_{i}_{j}")
                first += partial.eq(a * b)
        half = Signal(width)
        with m.Switch(self.half):
            for index, h in enumerate(self.halves):
                with m.Case(index):
                    first += half.eq(h)
        product = Signal(signed(2 * width))
        if self.cycles == 3:
            started = Signal()
            m.d.sync += started.eq(self.start)
            with m.If(started):
                m.d.sync += product.eq(sum((partial << limb * (i + j) for (i, j), partial in partials.items()), half))
        else:
            aligned, others = Signal(signed(2 * width)), Signal(signed(2 * width))
            with m.If(self.start):
                m.d.sync += [aligned.eq(_row(partials, 0, limb)), others.eq(_sum_of_rows(partials, limb, half))]
            m.d.comb += product.eq(aligned + others)

        # A multiplexer with a line for each shift is a balanced tree, which the product enters last.
        shifts = [(self.shift == index, s) for index, s in enumerate(self.shifts)]
        m.d.comb += self.result.eq(gated((line, (product >> s)[:width]) for line, s in shifts))
        if self.flags:
            m.d.comb += self.fits.eq(gated((line, fits(product >> s, width)) for line, s in shifts if s in self.tested))
        return m


class ChainedSum(wiring.Component):
    """x ± product, or the product alone; and whether the sum fits. It stands behind a multiplier, in the same cycle."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(
            {
                #: add x to the product, or subtract the product from x
                "chain": In(1),
                "subtract": In(1),
                "x": In(width),
                "product": In(width),
                "result": Out(width),
                "fits": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        minus, x, y = Signal(), Signal(self.width), Signal(self.width)
        m.d.comb += [
            minus.eq(self.chain & self.subtract),
            x.eq(Mux(self.chain, self.x, 0)),
            y.eq(self.product ^ minus.replicate(self.width)),
            # x + y, or x + ¬y + 1. The carry in is one more bit below.
            self.result.eq((Cat(minus, x) + Cat(minus, y))[1:]),
            self.fits.eq((x[-1] != y[-1]) | (self.result[-1] == x[-1])),
        ]
        return m


def _row(partials: dict[tuple[int, int], Signal], apart: int, limb: int) -> Any:
    """The sum of the partial products of limbs i of x and i + apart of y. Each but the last is one of unsigned limbs: they lie end to end."""
    row = [(i, j) for i, j in partials if j - i == apart]
    return Cat(partials[pair][: 2 * limb] for pair in row).as_signed() << limb * sum(row[0])


def _sum_of_rows(partials: dict[tuple[int, int], Signal], limb: int, half: Signal) -> Any:
    """The sum of all rows but that of limbs in the same place, with half."""
    apart = sorted({j - i for i, j in partials} - {0}, key=abs)
    return sum((_row(partials, k, limb) for k in apart), half)


def fits(word: Any, width: int) -> Any:
    """Whether a signed number fits a word: all bits from the word's sign on are equal."""
    above = word[width - 1 :]
    return above.all() | ~above.any()
