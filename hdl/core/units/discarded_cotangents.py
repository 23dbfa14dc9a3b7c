"""The ledger: which cotangents were dropped as their ancillas were freed, and which of them cannot come back.

Points where an ancilla is freed are counted along the run: up, or down once the machine has been turned round. Where a
cotangent that was not zero was dropped, the run cannot go back: the last such point is remembered, and crossing it from
the other side traps.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.microcode.microword import Trap

#: bits of the count of points
POINT = 48


class Ledger(wiring.Component):
    """The cotangent comes a cycle before it is asked of; nothing is remembered of an instruction that traps."""

    def __init__(self, width: int) -> None:
        super().__init__(
            {
                #: the cotangent that would be dropped
                "cotangent": In(width),
                #: the machine was turned round
                "turned": In(1),
                #: cotangents must not be lost
                "strict": In(1),
                #: why this point cannot be crossed now
                "trap": Out(Trap),
                #: cross it
                "cross": In(1),
                #: crossing it loses a cotangent
                "loses": Out(1),
                #: forget what was lost, since all cotangents are cleared
                "forget": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        crossed, point, lost = Signal(POINT), Signal(POINT), Signal(POINT)
        known, lost_turned, back = Signal(), Signal(), Signal()
        m.d.comb += point.eq(Mux(self.turned, crossed - 1, crossed))
        m.d.sync += [
            self.loses.eq(self.cotangent != 0),
            back.eq(known & (lost == point) & (lost_turned != self.turned)),
        ]
        with m.If(back):
            m.d.comb += self.trap.eq(Trap.ERASED)
        with m.Elif(self.loses & self.strict):
            m.d.comb += self.trap.eq(Trap.STRICT)
        with m.If(self.cross):
            m.d.sync += crossed.eq(Mux(self.turned, point, crossed + 1))
            with m.If(self.loses):
                m.d.sync += [lost.eq(point), lost_turned.eq(self.turned), known.eq(1)]
        with m.If(self.forget):
            m.d.sync += known.eq(0)
        return m
