"""The core in Amaranth's simulator: slow, and needs no other tool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amaranth.sim import Simulator
from retrograd.hdl.bus.transactions import Change, Order, OrderReport, Record
from retrograd.hdl.core.core import Core
from retrograd.hdl.core.ports import Space
from retrograd.hdl.microword import TrapCause
from retrograd.hdl.simulation.waves import Watched
from retrograd.isa.files import replacing_text

#: more cycles than any instruction takes
_PATIENCE = 2000


class Simulation:
    """Carries out orders on one core, from reset. The first use takes seconds to compile the core; later uses take none."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._simulator: Simulator | None = None
        self._orders: Sequence[Order] = ()
        self._reports: list[OrderReport] = []

    def run(self, orders: Sequence[Order], vcd: str | None = None) -> list[OrderReport]:
        """Carry out the orders. Raises TimeoutError if the core does not become idle.

        `vcd`: a file for the waveforms, see `waves`.
        """
        self._orders, self._reports = orders, []
        if vcd is not None:
            watched = Watched(self.core)
            simulator = self._new(watched)
            with (
                replacing_text(vcd, keep_partial=True) as waveforms,
                replacing_text(Path(vcd).with_suffix(".gtkw"), keep_partial=True) as saved,
                simulator.write_vcd(waveforms, saved, traces=watched.traces),
            ):
                simulator.run()
            return self._reports
        if self._simulator is None:
            simulator = self._new(self.core)
        else:
            simulator, self._simulator = self._simulator, None
            simulator.reset()
        simulator.run()
        # Discard a simulation that was interrupted.
        self._simulator = simulator
        return self._reports

    def _new(self, top: Any) -> Simulator:
        simulator = Simulator(top)
        simulator.add_clock(1e-6)
        simulator.add_testbench(self._bench)
        return simulator

    async def _bench(self, ctx: Any) -> None:
        for order in self._orders:
            self._reports.append(await self._carry_out(ctx, order))

    def _memory(self, space: Space) -> Any:
        core = self.core
        return {
            Space.REGISTERS: core.registers.words,
            Space.REGISTER_COTANGENTS: core.registers.cotangents,
            Space.DATA: core.memory.words,
            Space.DATA_COTANGENTS: core.memory.cotangents,
            Space.CODE: core.code,
        }[space]

    async def _carry_out(self, ctx: Any, order: Order) -> OrderReport:
        core = self.core
        for space, address, word in order.writes:
            ctx.set(self._memory(space)[address], word)
        if order.code_size:
            ctx.set(core.code_size, order.code_size)
        if order.data_size:
            ctx.set(core.data_size, order.data_size)
        await self._set(ctx, order)
        records, halted = await self._execute(ctx, order)
        blocks = [
            [ctx.get(self._memory(space)[at]) for at in range(first, first + n)] for space, first, n in order.reads
        ]
        await ctx.tick().repeat(4)  # the counters of bits are updated late
        counters = tuple(ctx.get(core.counters[i]) for i in range(4))
        assert len(counters) == 4
        pc, br = _signed(ctx.get(core.pc), core.parameters.pc_bits), _signed(ctx.get(core.br), core.parameters.width)
        return OrderReport(records, halted, pc, br, bool(ctx.get(core.backward)), counters, blocks)

    async def _set(self, ctx: Any, order: Order) -> None:
        settings, modes = self.core.settings, self.core.modes
        given = {"pc": order.pc, "br": order.br, "direction": None if order.backward is None else -order.backward}
        for name, value in given.items():
            if value is not None:
                ctx.set(settings.value, value & ((1 << self.core.parameters.pc_bits) - 1))
                await self._strobe(ctx, getattr(settings, f"set_{name}"))
        for name in ("turn", "forget", "clear"):
            if getattr(order, name):
                await self._strobe(ctx, getattr(settings, name))
        ctx.set(modes.differentiate, order.differentiate)
        ctx.set(modes.overflow, order.overflow)
        ctx.set(modes.strict, order.strict)

    async def _strobe(self, ctx: Any, signal: Any) -> None:
        ctx.set(signal, 1)
        await ctx.tick()
        ctx.set(signal, 0)

    async def _execute(self, ctx: Any, order: Order) -> tuple[list[Record], bool]:
        """Run for the order's number of instructions, or to the end of the program."""
        core, port = self.core, self.core.retirement
        records: list[Record] = []
        begun = clock = quiet = 0
        halted = False
        if not order.steps:
            return records, halted
        ctx.set(core.run, 1)
        while True:
            if ctx.get(core.begins):
                begun += 1
                quiet = 0
            over = bool(ctx.get(core.traps) or ctx.get(core.halts))
            halted = halted or bool(ctx.get(core.halts))
            if begun == order.steps or over:
                ctx.set(core.run, 0)
            await ctx.tick()
            clock, quiet = clock + 1, quiet + 1
            if ctx.get(port.valid):
                if order.last_only:
                    records.clear()
                records.append(self._record(ctx, clock))
            if ctx.get(core.idle) and begun:
                return records, halted
            if quiet > _PATIENCE:
                raise TimeoutError(f"an instruction at PC = {ctx.get(core.pc)} does not end")

    def _record(self, ctx: Any, clock: int) -> Record:
        port, p = self.core.retirement, self.core.parameters

        def change(place: str) -> Change:
            return Change(*(ctx.get(getattr(port, f"{place}_{member}")) for member in Change._fields))

        return Record(
            TrapCause(ctx.get(port.trap)),
            ctx.get(port.instruction),
            ctx.get(port.pc_before),
            ctx.get(port.pc_after),
            _signed(ctx.get(port.br_before), p.width),
            _signed(ctx.get(port.br_after), p.width),
            bool(ctx.get(port.backward_before)),
            bool(ctx.get(port.backward_after)),
            ctx.get(port.cycles),
            clock,
            ctx.get(port.address),
            *(change(place) for place in "dabm"),
        )


def _signed(word: int, width: int) -> int:
    return word - (word >> (width - 1) << width)
