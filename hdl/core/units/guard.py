"""The guard unit: the trap of the first guard that fails, in the order of the table."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.dispatch import FORBIDDEN
from retrograd.hdl.microword import CHECK, TrapCause


class GuardUnit(wiring.Component):
    """Predicates arrive in the order of the schedule; the guards' order in the table decides which trap is reported."""

    def __init__(self, width: int) -> None:
        super().__init__(
            {
                #: an instruction begins, with a trap that is known before execution, if any
                "begin": In(1),
                "forbidden": In(FORBIDDEN),
                #: the guard whose predicate is computed in this cycle; its value arrives in the next
                "check": In(CHECK),
                "last": In(width),
                #: whether overflow traps, and whether erasure traps
                "overflow": In(1),
                "strict": In(1),
                #: a guard has failed; and the trap of the first that has
                "fails": Out(1),
                "trap": Out(TrapCause),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        check, held = Signal(CHECK), Signal(CHECK)
        m.d.sync += check.eq(self.check)
        fails, first = Signal(), Signal()
        m.d.comb += [
            fails.eq(check.valid & (self.last == 0) & (self.overflow | ~check.overflow)),
            first.eq(fails & (~held.valid | (check.order < held.order))),
            self.fails.eq(fails | held.valid),
            self.trap.eq(Mux(first, check.trap, Mux(held.valid, held.trap, TrapCause.NONE))),
        ]
        f = self.forbidden
        with m.If(self.begin):
            m.d.sync += [
                check.valid.eq(0),
                held.valid.eq(f.valid & (self.overflow | ~f.overflow) & (self.strict | ~f.strict)),
                held.order.eq(f.order),
                held.trap.eq(f.trap),
            ]
        with m.Elif(first):
            m.d.sync += held.eq(check)
        return m
