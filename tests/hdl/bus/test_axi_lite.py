"""The bridge from AXI4-Lite: transfers of a random master whose channels pause, against a memory; and the co-processor behind it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator
from retrograd.hdl.bus.register_map import MAGIC, Area, HostRegister
from retrograd.hdl.bus.top import AxiLiteCoprocessor
from retrograd.hdl.bus.wishbone import AxiLiteBridge, Response
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

OKAY, ERROR = Response.OKAY.value, Response.SLVERR.value


class Slave:
    """A memory of 8 words on Wishbone, whose answers take a random time. It refuses all other words."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.words, self.transfers = rng, [0] * 8, 0

    async def serve(self, ctx: Any, bus: Any) -> None:
        while True:
            await ctx.tick()
            if not (ctx.get(bus.cyc) and ctx.get(bus.stb)):
                continue
            await ctx.tick().repeat(self.rng.randrange(3) + 1)
            assert ctx.get(bus.cyc)
            self.transfers += 1
            at, word = ctx.get(bus.adr), ctx.get(bus.dat_w)
            if at < 8 and ctx.get(bus.we):
                mask = sum(0xFF << 8 * i for i in range(4) if ctx.get(bus.sel) >> i & 1)
                self.words[at] = self.words[at] & ~mask | word & mask
            elif at < 8:
                assert ctx.get(bus.sel) == 15
                ctx.set(bus.dat_r, self.words[at])
            answer = bus.ack if at < 8 else bus.err
            ctx.set(answer, 1)
            await ctx.tick()
            ctx.set(answer, 0)


class Master:
    """The channels of a master. Each waits a random time."""

    def __init__(self, ctx: Any, axi: Any, rng: random.Random) -> None:
        self.ctx, self.axi, self.rng = ctx, axi, rng

    async def _until(self, *channels: tuple[str, dict[str, int]]) -> None:
        """Send each channel's words, in any order, and hold them until they are taken."""
        ctx, axi = self.ctx, self.axi
        waits = {name: self.rng.randrange(4) for name, _ in channels}
        left = dict(channels)
        while left:
            for name, values in left.items():
                if waits[name] == 0:
                    for signal, value in values.items():
                        ctx.set(getattr(axi, signal), value)
                    ctx.set(getattr(axi, f"{name}valid"), 1)
                waits[name] -= 1
            taken = {
                name for name in left if ctx.get(getattr(axi, f"{name}valid")) and ctx.get(getattr(axi, f"{name}ready"))
            }
            await ctx.tick()
            for name in taken:
                ctx.set(getattr(axi, f"{name}valid"), 0)
                del left[name]

    async def _answer(self, name: str) -> None:
        """Wait for an answer, which stays until it is taken; it is not taken here."""
        ctx, axi = self.ctx, self.axi
        for _ in range(20):
            if ctx.get(getattr(axi, f"{name}valid")):
                break
            await ctx.tick()
        else:
            raise AssertionError("no answer comes")
        for _ in range(self.rng.randrange(3)):
            await ctx.tick()
            assert ctx.get(getattr(axi, f"{name}valid"))

    async def _take(self, name: str) -> None:
        self.ctx.set(getattr(self.axi, f"{name}ready"), 1)
        await self.ctx.tick()
        self.ctx.set(getattr(self.axi, f"{name}ready"), 0)

    async def write(self, address: int, word: int, strobes: int = 15) -> int:
        await self._until(("aw", {"awaddr": address}), ("w", {"wdata": word, "wstrb": strobes}))
        await self._answer("b")
        found = int(self.ctx.get(self.axi.bresp))
        await self._take("b")
        return found

    async def read(self, address: int) -> tuple[int, int]:
        await self._until(("ar", {"araddr": address}))
        await self._answer("r")
        found = int(self.ctx.get(self.axi.rresp)), int(self.ctx.get(self.axi.rdata))
        await self._take("r")
        return found


def simulated(made: wiring.Component, *benches: Callable[[Any], Awaitable[None]], background: Any = None) -> None:
    m = Module()
    m.submodules.made = made
    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    if background is not None:
        simulator.add_testbench(background, background=True)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("seed", range(3))
def test_random_transfers(seed: int) -> None:
    rng, made, seen = random.Random(seed), AxiLiteBridge(), Counter[tuple[str, int]]()
    slave, words = Slave(random.Random(seed + 100)), [0] * 8

    async def script(ctx: Any) -> None:
        master = Master(ctx, made.axi, rng)
        for _ in range(150):
            at, address = rng.randrange(10), 0
            address = 4 * at + (rng.randrange(1, 4) if rng.random() < 0.1 else 0)
            good = at < 8 and address % 4 == 0
            before = slave.transfers
            if rng.random() < 0.5:
                word, strobes = rng.getrandbits(32), rng.randrange(16)
                answer = await master.write(address, word, strobes)
                if good:
                    for i in range(4):
                        if strobes >> i & 1:
                            words[at] = words[at] & ~(0xFF << 8 * i) | word & 0xFF << 8 * i
                seen["write", answer] += 1
            else:
                answer, found = await master.read(address)
                if good:
                    assert found == words[at]
                seen["read", answer] += 1
            assert answer == (OKAY if good else ERROR)
            # One transfer each, and none for an address between words.
            assert slave.transfers - before == (address % 4 == 0)
        assert slave.words == words

    async def serve(ctx: Any) -> None:
        await slave.serve(ctx, made.bus)

    simulated(made, script, background=serve)
    assert len(seen) == 4


def test_reads_and_writes_at_once() -> None:
    """Of a master with both always waiting, neither is kept waiting for more than one of the other."""
    made, slave, order = AxiLiteBridge(), Slave(random.Random(1)), list[str]()

    async def writer(ctx: Any) -> None:
        master = Master(ctx, made.axi, random.Random(2))
        for at in range(20):
            assert await master.write(4 * (at % 8), at) == OKAY
            order.append("w")

    async def reader(ctx: Any) -> None:
        master = Master(ctx, made.axi, random.Random(3))
        for at in range(20):
            assert (await master.read(4 * (at % 8)))[0] == OKAY
            order.append("r")

    async def serve(ctx: Any) -> None:
        await slave.serve(ctx, made.bus)

    simulated(made, writer, reader, background=serve)
    assert slave.transfers == 40
    assert "w" * 4 not in "".join(order[:30])
    assert "r" * 4 not in "".join(order[:30])


def test_the_co_processor_behind_it() -> None:
    made = AxiLiteCoprocessor(Parameters(Format(8, 4), 16, 4))

    async def script(ctx: Any) -> None:
        master = Master(ctx, made.bus, random.Random(4))
        assert await master.read(0) == (OKAY, MAGIC << 16 | 8 << 8 | 4)
        assert await master.write(Area.DATA.address(2), 77) == OKAY
        assert await master.read(Area.DATA.address(2)) == (OKAY, 77)
        assert await master.write(HostRegister.IDENTITY.address, 1) == ERROR
        assert await master.write(Area.DATA.address(2), 78, strobes=1) == ERROR
        assert await master.read(Area.DATA.address(2)) == (OKAY, 77)
        assert await master.write(HostRegister.INTERRUPT_ENABLE.address, 15) == OKAY
        assert await master.write(HostRegister.CONTROL.address, HostRegister.CONTROL.field("zero_words").mask) == OKAY
        for _ in range(400):
            if ctx.get(made.interrupt):
                break
            await ctx.tick()
        assert ctx.get(made.interrupt)
        assert await master.read(Area.DATA.address(2)) == (OKAY, 0)

    simulated(made, script)
