"""The guard unit of an overlapped core: the trap of the first guard that fails, in the order of the table."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.microcode import FORBIDDEN
from retrograd.hdl.microword import TrapCause, wide_check


class OverlappedGuards(wiring.Component):
    """As `GuardUnit`. An instruction begins in the cycle in which the trap of the one before is asked for at the latest."""

    def __init__(self, width: int, slots: int) -> None:
        self.slots = slots
        self.layout = wide_check(slots)
        super().__init__(
            {
                #: an instruction executes its first row, with a trap that is known before execution, if any; its modes
                "begin": In(1),
                "forbidden": In(FORBIDDEN),
                "entering_overflow": In(1),
                "entering_strict": In(1),
                #: the guard whose predicate is computed in this cycle; its value arrives in the next
                "check": In(self.layout),
                **{f"last{k}": In(width) for k in range(slots)},
                "fits": In(slots),
                #: whether overflow traps in the instruction whose predicate arrives
                "overflow": In(1),
                #: the trap of the first guard that has failed so far
                "trap": Out(TrapCause),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        check, held = Signal(self.layout), Signal(self.layout)
        m.d.sync += check.eq(self.check)
        over = Signal(self.slots)
        m.d.sync += over.eq(~self.fits)
        fails, first = Signal(), Signal()
        # A result of 0, or a sum that does not fit
        wrong = [Mux(check.flag, over[k], getattr(self, f"last{k}") == 0) for k in range(self.slots)]
        chosen = [wrong[k] & (check.slot == k) for k in range(self.slots)]
        m.d.comb += [
            fails.eq(check.valid & Cat(chosen).any() & (self.overflow | ~check.overflow)),
            first.eq(fails & (~held.valid | (check.order < held.order))),
            self.trap.eq(Mux(first, check.trap, Mux(held.valid, held.trap, TrapCause.NONE))),
        ]
        with m.If(first):
            m.d.sync += held.eq(check)
        f = self.forbidden
        with m.If(self.begin):
            m.d.sync += [
                held.valid.eq(f.valid & (self.entering_overflow | ~f.overflow) & (self.entering_strict | ~f.strict)),
                held.order.eq(f.order),
                held.trap.eq(f.trap),
            ]
        return m
