"""A master of the bus and a co-processor to try, both simulated; and the programs of these tests.

on_bus(Format(32, 16), script)      the script, against a co-processor that was reset
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator
from retrograd.hdl.bus.register_map import Area, HostRegister
from retrograd.hdl.bus.top import Coprocessor
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

import retrograd as rg

CODE_WORDS, DATA_WORDS = 32, 16
PROGRAM = """
        .format {w}, {f}
        start
        imm.add r1, 5
        mul.add r2, r1, r1
        exch    r2, [r3 + 2]
top:    from.ne r4, r0, bottom
        imm.add r4, 1
bottom: goto.lt r4, r1, top
        finish
"""


def program(w: Format) -> rg.Program:
    """It counts, multiplies, exchanges and loops."""
    return rg.assemble(PROGRAM.format(w=w.width, f=w.frac))


class Refused(Exception):
    """The bus answered with an error."""


class Bus:
    """A master of the bus, and what it knows of the register map."""

    def __init__(self, ctx: Any, made: Coprocessor, reset: Signal) -> None:
        self.ctx, self.made, self.bus = ctx, made, made.bus
        #: resets the co-processor, as a host's wire would
        self.reset = reset

    async def transfer(self, address: int, word: int | None = None, sel: int = 15) -> int:
        """One transfer. Raises Refused; fails where no answer comes within three cycles."""
        ctx, bus = self.ctx, self.bus
        ctx.set(bus.adr, address >> 2)
        ctx.set(bus.we, word is not None)
        ctx.set(bus.dat_w, word or 0)
        ctx.set(bus.sel, sel)
        ctx.set(bus.cyc, 1)
        ctx.set(bus.stb, 1)
        for _ in range(3):
            await ctx.tick()
            ack, err = ctx.get(bus.ack), ctx.get(bus.err)
            assert not (ack and err)
            if ack or err:
                break
        else:
            raise AssertionError("the bus hangs")
        found = ctx.get(bus.dat_r)
        ctx.set(bus.cyc, 0)
        ctx.set(bus.stb, 0)
        await ctx.tick()
        assert not ctx.get(bus.ack)
        assert not ctx.get(bus.err)
        if err:
            raise Refused(hex(address))
        return int(found)

    async def give_up(self, address: int, word: int | None, sel: int) -> None:
        """A transfer that the master leaves after one cycle."""
        ctx, bus = self.ctx, self.bus
        ctx.set(bus.adr, address >> 2)
        ctx.set(bus.we, word is not None)
        ctx.set(bus.dat_w, word or 0)
        ctx.set(bus.sel, sel)
        ctx.set(bus.cyc, 1)
        ctx.set(bus.stb, 1)
        await ctx.tick()
        ctx.set(bus.cyc, 0)
        ctx.set(bus.stb, 0)
        await ctx.tick()

    async def read(self, area: Area, index: int) -> int:
        at = area.value << 28 | index << 3
        return await self.transfer(at) | await self.transfer(at + 4) << 32

    async def write(self, area: Area, index: int, word: int) -> None:
        at = area.value << 28 | index << 3
        await self.transfer(at + 4, word >> 32)
        await self.transfer(at, word & 0xFFFFFFFF)

    async def get(self, slot: HostRegister) -> int:
        return await self.read(Area.CONTROL, slot.value)

    async def set(self, slot: HostRegister, word: int) -> None:
        await self.write(Area.CONTROL, slot.value, word)

    async def load(self, p: rg.Program) -> None:
        for at, word in enumerate(p.code):
            await self.write(Area.CODE, at, word)
        await self.set(HostRegister.CODE_SIZE, len(p.code))
        await self.set(HostRegister.PC, p.start)

    async def finished(self) -> int:
        """The status, once it has ended."""
        for _ in range(1000):
            status = await self.get(HostRegister.STATUS)
            if not status & 1:
                return status
        raise AssertionError("the core does not end")

    async def refuses(self, area: Area, index: int, word: int) -> None:
        with pytest.raises(Refused):
            await self.write(area, index, word)


def parameters(w: Format) -> Parameters:
    return Parameters(w, CODE_WORDS, DATA_WORDS)


class Bench:
    """A co-processor on a bus, simulated: to make one takes seconds, to begin again from its reset nothing."""

    def __init__(self, p: Parameters) -> None:
        self._made, self._reset = Coprocessor(p), Signal()
        self._script: Callable[[Bus], Awaitable[None]] | None = None
        self._simulator = Simulator(ResetInserter(self._reset)(self._made))
        self._simulator.add_clock(1e-6)
        self._simulator.add_testbench(self._run)

    async def _run(self, ctx: Any) -> None:
        assert self._script is not None
        await self._script(Bus(ctx, self._made, self._reset))

    def run(self, script: Callable[[Bus], Awaitable[None]]) -> None:
        if self._script is not None:
            self._simulator.reset()
        self._script = script
        self._simulator.run()


_BENCHES: dict[Parameters, Bench] = {}


def on_bus(p: Format | Parameters, script: Callable[[Bus], Awaitable[None]], *, fresh: bool = False) -> None:
    """Run a script against a co-processor that was reset. One whose script failed is not used again; `fresh`: nor is an earlier one."""
    p = parameters(p) if isinstance(p, Format) else p
    used = _BENCHES.pop(p, None)
    if used is None or fresh:
        used = Bench(p)
    used.run(script)
    _BENCHES[p] = used


def status(word: int) -> dict[str, int]:
    """The fields of the slot STATUS."""
    return {field.name: field.of(word) for field in HostRegister.STATUS.fields}
