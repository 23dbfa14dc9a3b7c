"""The core in Amaranth's simulator: slow, and needs no other tool.

`Simulation.run(orders, vcd="run.vcd")` writes waveforms with the program in them: the instruction and its operands as text, beside PC, BR
and DIR. Beside them it writes run.gtkw, with which GTKWave shows the signals in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amaranth.hdl import Elaboratable, Module, Signal, signed
from amaranth.sim import Simulator
from retrograd.hdl.core.barrel import BarrelCore
from retrograd.hdl.core.cores import SingleCore
from retrograd.hdl.core.ports import THREAD_READ, Space
from retrograd.hdl.core.sequencer import FIELDS
from retrograd.hdl.microword import TrapCause
from retrograd.hdl.parameters import INSTRUCTION
from retrograd.hdl.simulation.transactions import BatchReport, Change, Order, OrderReport, Record, need_common
from retrograd.isa.diagnostics import RetrogradError
from retrograd.isa.encoding import decode, write
from retrograd.isa.files import replacing_text
from retrograd.isa.microarchitecture.micro_operations import BARREL

# -----------------------------------------------------------------------------
# Waveforms.


class Watched(Elaboratable):
    """A core, and signals whose values are text."""

    def __init__(self, core: SingleCore) -> None:
        self.core, p = core, core.parameters
        retirement = core.retirement

        def mnemonic(word: int) -> str:
            try:
                return write(decode(word, p.table)).replace(" ", "_")
            except RetrogradError:
                return "illegal"

        def register(number: int) -> str:
            return f"r{number}"

        #: text of the instruction that is executed
        self.instruction = Signal(INSTRUCTION, decoder=mnemonic)
        #: its fields
        self.rd, self.ra, self.rb = (Signal(8, name=name, decoder=register) for name in ("rd", "ra", "rb"))
        self.pc = Signal(signed(p.pc_bits), name="PC")
        self.br = Signal(signed(p.width), name="BR")
        self.direction = Signal(name="DIR", decoder=lambda backward: "backward" if backward else "forward")
        self.d = Signal(name="D")
        self.retires = Signal()
        self.trap = Signal.like(retirement.trap, name="trap_code")
        self.cycles = Signal.like(retirement.cycles, name="cycle_count")
        #: words and cotangents that it writes
        self.places = {
            f"{place}_{member}": Signal(signed(p.width), name=f"{place}_{member}")
            for place in "dabm"
            for member in ("word_before", "word_after", "cotangent_before", "cotangent_after")
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = core = self.core
        retirement = core.retirement
        fields = Signal(FIELDS)
        m.d.comb += [
            self.instruction.eq(retirement.instruction), fields.eq(retirement.instruction),
            self.rd.eq(fields.rd), self.ra.eq(fields.ra), self.rb.eq(fields.rb),
            self.pc.eq(core.pc.as_signed()), self.br.eq(core.br.as_signed()), self.direction.eq(core.backward),
            self.d.eq(core.modes.differentiate), self.retires.eq(retirement.valid),
            self.trap.eq(retirement.trap), self.cycles.eq(retirement.cycles),
            *(signal.eq(getattr(retirement, name)) for name, signal in self.places.items()),
        ]  # fmt: skip
        return m

    @property
    def traces(self) -> list[Any]:
        """Signals in the order in which a viewer shows them."""
        control = [self.instruction, self.rd, self.ra, self.rb, self.pc, self.br, self.direction, self.d]
        return [*control, self.retires, self.trap, self.cycles, *self.places.values()]


# -----------------------------------------------------------------------------
# The simulator.

#: more cycles than any instruction takes
_PATIENCE = 10_000


class Simulation:
    """Carries out orders on one core, from reset. The first use takes seconds to compile the core; later uses take none."""

    def __init__(self, core: SingleCore | BarrelCore) -> None:
        self.core: Any = core
        self._several = core.parameters.core == BARREL
        self.lanes: Sequence[Any] = self.core.lanes if self._several else [self.core]
        self._simulator: Simulator | None = None
        self._orders: Sequence[Sequence[Order]] = ()
        self._reports: list[BatchReport] = []

    def run(self, orders: Sequence[Order], vcd: str | None = None) -> list[OrderReport]:
        """Carry out the orders on a core with one lane. Raises TimeoutError if the core does not become idle.

        `vcd`: a file for the waveforms, see `waves`.
        """
        return [report.lanes[0] for report in self.run_batch([[order] for order in orders], vcd)]

    def run_batch(self, orders: Sequence[Sequence[Order]], vcd: str | None = None) -> list[BatchReport]:
        """Carry out one order for each lane or thread, again and again. Raises as `run`; ValueError for waveforms of several, see also `need_common`."""
        for batch in orders:
            need_common(batch, len(self.lanes))
        self._orders, self._reports = orders, []
        if vcd is not None:
            if self._several:
                raise ValueError(f"there are no waveforms of the core {self.core.parameters.core}")
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
        for orders in self._orders:
            self._reports.append(await self._carry_out(ctx, orders))

    def _cell(self, lane: Any, space: Space, address: int) -> Any:
        """The word of a memory."""
        if self.core.parameters.core == BARREL:
            memory, at = lane.cell(space, address)
            return memory[at]
        return {
            Space.REGISTERS: lane.registers.words,
            Space.REGISTER_COTANGENTS: lane.registers.cotangents,
            Space.DATA: lane.memory.words,
            Space.DATA_COTANGENTS: lane.memory.cotangents,
            Space.CODE: self.core.code,
        }[space][address]

    async def _carry_out(self, ctx: Any, orders: Sequence[Order]) -> BatchReport:
        core, common = self.core, orders[0]
        for size in ("code_size", "data_size"):
            if getattr(common, size):
                ctx.set(getattr(core, size), getattr(common, size))
        for number, (lane, order) in enumerate(zip(self.lanes, orders, strict=True)):
            for space, address, word in order.writes:
                cell = self._cell(lane, space, address)
                # To change a word takes the simulator much longer than to read it.
                if ctx.get(cell) != word:
                    ctx.set(cell, word)
            await self._set(ctx, number, order)
        ctx.set(core.modes.differentiate, common.differentiate)
        ctx.set(core.modes.overflow, common.overflow)
        ctx.set(core.modes.strict, common.strict)
        records, halted, issues = await self._execute(ctx, orders)
        await ctx.tick().repeat(4)  # the counters of bits are updated late
        reports = []
        for number, (lane, order) in enumerate(zip(self.lanes, orders, strict=True)):
            if self._several:
                ctx.set(core.selected, number)
                await ctx.tick().repeat(THREAD_READ)
            reports.append(self._report(ctx, lane, order, records[number], bool(halted >> number & 1)))
        totals = core.issued if self._several else core.counters
        return BatchReport(reports, issues, ctx.get(totals[0]), ctx.get(totals[1]))

    def _report(self, ctx: Any, lane: Any, order: Order, records: list[Record], halted: bool) -> OrderReport:
        core, p = self.core, lane.parameters
        blocks = [
            [ctx.get(self._cell(lane, space, at)) for at in range(first, first + n)] for space, first, n in order.reads
        ]
        counters = tuple(ctx.get(core.counters[i]) for i in range(4))
        assert len(counters) == 4
        pc, br = _signed(ctx.get(core.pc), p.pc_bits), _signed(ctx.get(core.br), p.width)
        return OrderReport(records, halted, pc, br, bool(ctx.get(core.backward)), counters, blocks)

    async def _set(self, ctx: Any, lane: int, order: Order) -> None:
        settings = self.core.settings
        if self._several:
            ctx.set(self.core.selected, lane)
        given = {"pc": order.pc, "br": order.br, "direction": None if order.backward is None else -order.backward}
        for name, value in given.items():
            if value is not None:
                ctx.set(settings.value, value & ((1 << self.core.parameters.pc_bits) - 1))
                await self._strobe(ctx, getattr(settings, f"set_{name}"))
        for name in ("turn", "forget", "clear"):
            if getattr(order, name):
                await self._strobe(ctx, getattr(settings, name))

    async def _strobe(self, ctx: Any, signal: Any) -> None:
        ctx.set(signal, 1)
        await ctx.tick()
        ctx.set(signal, 0)

    async def _execute(self, ctx: Any, orders: Sequence[Order]) -> tuple[list[list[Record]], int, list[int]]:
        """Run for each order's number of instructions, or to the end of the program: records, lanes that halted, lanes of each issue."""
        core, ports = self.core, [lane.retirement for lane in self.lanes]
        records: list[list[Record]] = [[] for _ in orders]
        issues: list[int] = []
        begun, clock, quiet, halted = [0] * len(orders), 0, 0, 0
        running = sum(1 << i for i, order in enumerate(orders) if order.steps)
        if not running:
            return records, halted, issues
        ctx.set(core.run, running)
        while True:
            begins, halts = ctx.get(core.begins), ctx.get(core.halts)
            over = ctx.get(core.traps) | halts
            if begins:
                quiet = 0
                if not orders[0].last_only:
                    issues.append(begins)
            for i, order in enumerate(orders):
                begun[i] += begins >> i & 1
                over |= (begun[i] >= order.steps) << i
            halted |= halts
            if running & over:
                running &= ~over
                ctx.set(core.run, running)
            await ctx.tick()
            clock, quiet = clock + 1, quiet + 1
            for i, port in enumerate(ports):
                if ctx.get(port.valid):
                    if orders[i].last_only:
                        records[i].clear()
                    records[i].append(self._record(ctx, port, clock))
            if not running and ctx.get(core.idle) and any(begun):
                return records, halted, issues
            if quiet > _PATIENCE:
                raise TimeoutError(f"an instruction at PC = {ctx.get(core.pc)} does not end")

    def _record(self, ctx: Any, port: Any, clock: int) -> Record:
        p = self.core.parameters

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
