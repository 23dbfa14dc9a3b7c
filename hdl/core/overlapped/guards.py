"""The guard unit of an overlapped core: the trap of the first guard that fails, in the order of the table."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.dispatch import FORBIDDEN
from retrograd.hdl.microword import WIDE_CHECK, TrapCause

#: a guard that failed
_FAILED = data.StructLayout({"valid": 1, "order": 4, "trap": TrapCause})


class OverlappedGuards(wiring.Component):
    """As `GuardUnit`, for all slots at once. An instruction begins in the cycle in which the trap of the one before is asked for at the latest."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        super().__init__(
            {
                #: an instruction executes its first row, with a trap that is known before execution, if any; its modes
                "begin": In(1),
                "forbidden": In(FORBIDDEN),
                "entering_overflow": In(1),
                "entering_strict": In(1),
                #: the guards whose predicates are computed in this cycle; the predicates, each 0 or 1, arrive in the next
                **{f"check{k}": In(WIDE_CHECK) for k in range(slots)},
                **{f"holds{k}": In(1) for k in range(slots)},
                #: whether the sums, and the products or quotients, of this cycle fit
                "fits": In(slots),
                "units_fit": In(slots),
                #: whether overflow traps in the instruction whose predicates arrive
                "overflow": In(1),
                #: a guard has failed; and the trap of the first that has
                "fails": Out(1),
                "trap": Out(TrapCause),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        over, units_over = Signal(self.slots), Signal(self.slots)
        m.d.sync += [over.eq(~self.fits), units_over.eq(~self.units_fit)]
        #: the first guard that failed in earlier cycles, and those of the cycle before
        held = Signal(_FAILED)
        failed = [held]
        for k in range(self.slots):
            check, now = Signal(WIDE_CHECK, name=f"check{k}_arriving"), Signal(_FAILED, name=f"failed{k}")
            m.d.sync += check.eq(getattr(self, f"check{k}"))
            fails = (check.result & ~getattr(self, f"holds{k}")) | (check.sum & over[k]) | (check.unit & units_over[k])
            m.d.comb += [
                now.valid.eq(fails & (self.overflow | ~check.overflow)),
                now.order.eq(check.order),
                now.trap.eq(check.trap),
            ]
            failed.append(now)
        # Of two of one order the first counts: the held one, which may be a trap that is known before execution.
        first = Signal(_FAILED)
        m.d.comb += [first.valid.eq(self.fails), self.fails.eq(Cat(guard.valid for guard in failed).any())]
        for k, guard in enumerate(failed):
            before = Cat(other.valid & (other.order <= guard.order) for other in failed[:k])
            with m.If(guard.valid & ~before.any()):
                m.d.comb += [first.order.eq(guard.order), first.trap.eq(guard.trap)]
        m.d.comb += self.trap.eq(Mux(first.valid, first.trap, TrapCause.NONE))
        m.d.sync += held.eq(first)
        f = self.forbidden
        with m.If(self.begin):
            m.d.sync += [
                held.valid.eq(f.valid & (self.entering_overflow | ~f.overflow) & (self.entering_strict | ~f.strict)),
                held.order.eq(f.order),
                held.trap.eq(f.trap),
            ]
        return m
