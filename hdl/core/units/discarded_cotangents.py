"""The tracker of discarded cotangents: where freed ancillas lost a nonzero cotangent, and when the run may not go back.

A counter numbers the points of the run at which an ancilla is freed: +1 at each, or −1 once the machine has been reversed. At a
point where the discarded cotangent was nonzero, the run has lost information. The last such point is remembered, and crossing it
from the other side traps.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.microword import TrapCause

#: bits of the counter
POINT = 48


class DiscardedCotangents(wiring.Component):
    """The cotangent arrives one cycle before the test. An instruction that traps changes nothing here."""

    def __init__(self, width: int, chained: bool = False) -> None:
        """`chained`: a point may be crossed in the cycle in which the next cotangent arrives."""
        self.chained = chained
        #: the number of points crossed; the last point at which a nonzero cotangent was lost, if there is one, and the direction there
        self.crossed = Signal(POINT)
        self.lost = Signal(POINT)
        self.known = Signal()
        self.lost_turned = Signal()
        super().__init__(
            {
                #: the cotangent that would be discarded
                "cotangent": In(width),
                #: the machine was reversed
                "turned": In(1),
                #: discarding a nonzero cotangent traps
                "strict": In(1),
                #: the trap of this crossing, or none
                "trap": Out(TrapCause),
                #: cross the point
                "cross": In(1),
                #: crossing the point discards a nonzero cotangent
                "loses": Out(1),
                #: all cotangents have been cleared: forget the last point
                "forget": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        crossed, lost, known, lost_turned = self.crossed, self.lost, self.known, self.lost_turned
        point, back = Signal(POINT), Signal()
        m.d.comb += point.eq(Mux(self.turned, crossed - 1, crossed))
        meets: Value = known & (lost == point) & (lost_turned != self.turned)
        if self.chained:
            # Behind a point that is crossed now. A point that is lost now is not met again in this direction.
            behind = Signal(POINT)
            m.d.comb += behind.eq(Mux(self.turned, crossed - 2, crossed + 1))
            later = known & ~self.loses & (lost == behind) & (lost_turned != self.turned)
            meets = Mux(self.cross, later, meets)
        m.d.sync += [self.loses.eq(self.cotangent != 0), back.eq(meets)]
        with m.If(back):
            m.d.comb += self.trap.eq(TrapCause.ERASED)
        with m.Elif(self.loses & self.strict):
            m.d.comb += self.trap.eq(TrapCause.STRICT)
        with m.If(self.cross):
            m.d.sync += crossed.eq(Mux(self.turned, point, crossed + 1))
            with m.If(self.loses):
                m.d.sync += [lost.eq(point), lost_turned.eq(self.turned), known.eq(1)]
        with m.If(self.forget):
            m.d.sync += known.eq(0)
        return m
