"""The multiplier: ⌊(x·y + h) / 2^s⌋ for the shifts s and the rounding constants h of the microcode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

#: bits of the limbs that are multiplied: those of an FPGA's multiplier, signed or unsigned
LIMB = 16


class Multiplier(wiring.Component):
    """Three cycles: partial products; their sum with h; the shift. The product is held until the next.

    Raises ValueError for a shift of the whole product's length or more, and for an h that may overflow the product.
    """

    def __init__(self, width: int, shifts: Sequence[int], halves: Sequence[int] = (0,), flags: bool = False) -> None:
        """`flags`: with a port for whether the result is the whole product."""
        if not all(0 <= s <= 2 * width for s in shifts):
            raise ValueError(f"shifts of a product go from 0 to {2 * width}")
        if not all(0 <= h < 1 << width for h in halves):
            raise ValueError(f"what is added to a product has at most {width} bits")
        self.width = width
        self.halves = tuple(halves)
        self.shifts = tuple(shifts)
        self.flags = flags
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
                #: the result, from the third cycle on
                "result": Out(width),
                **({"fits": Out(1)} if flags else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.width
        limb = min(LIMB, width)
        started = Signal()
        m.d.sync += started.eq(self.start)

        # All limbs but the top one are unsigned. One more bit makes every partial product one of signed numbers.
        def limbs(word: Signal) -> list[Signal]:
            found = []
            for at in range(0, width, limb):
                part = Signal(signed(limb + 1), name=f"limb_{at}")
                m.d.comb += part.eq(word[at:].as_signed() if at + limb == width else word[at : at + limb])
                found.append(part)
            return found

        terms = []
        for i, a in enumerate(limbs(self.x)):
            for j, b in enumerate(limbs(self.y)):
                partial = Signal(signed(2 * limb + 2), name=f"partial_{i}_{j}")
                m.d.sync += partial.eq(a * b)
                terms.append(partial << (limb * (i + j)))
        half = Signal(width)
        with m.Switch(self.half):
            for index, h in enumerate(self.halves):
                with m.Case(index):
                    m.d.sync += half.eq(h)
        product = Signal(signed(2 * width))
        with m.If(started):
            m.d.sync += product.eq(sum(terms, half))

        with m.Switch(self.shift):
            for index, s in enumerate(self.shifts):
                with m.Case(index):
                    m.d.comb += self.result.eq(product >> s)
                    if self.flags:
                        m.d.comb += self.fits.eq(fits(product >> s, width))
        return m


def fits(word: Any, width: int) -> Any:
    """Whether a signed number fits a word: all bits from the word's sign on are equal."""
    above = word[width - 1 :]
    return above.all() | ~above.any()
