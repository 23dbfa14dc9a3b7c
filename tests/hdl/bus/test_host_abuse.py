"""The host interface under abuse: transfers that are refused, commands to a busy core, resets in any cycle, masters that go away."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from retrograd.hdl.bus.register_map import Area, HostRegister
from retrograd.isa.words import Format
from support import bench

import retrograd as rg

Q32 = Format(32, 16)
RUN, STEP, STOP, TURN, FORGET, CLEAR, ZERO_WORDS, ZERO_COTANGENTS = (
    field.mask for field in HostRegister.CONTROL.fields[:8]
)


def bad_transfers(code_words: int, data_words: int) -> Iterator[tuple[int, int | None, int]]:
    """(address, word to write or None, sel) that are never carried out."""
    for area, size in ((1, 256), (2, 256), (3, data_words), (4, data_words), (5, code_words)):
        yield area << 28 | size << 3, None, 15
        yield area << 28 | size << 3, 1, 15
        yield area << 28 | 0xFFFFFF8, None, 15
        for sel in (0, 1, 3, 14):
            yield area << 28, 1, sel
    for area in range(6, 16):
        yield area << 28, None, 15
        yield area << 28, 1, 15
    yield len(HostRegister) << 3, None, 15
    for slot in (
        HostRegister.IDENTITY,
        HostRegister.STATUS,
        HostRegister.CYCLES,
        HostRegister.RETIRED,
        HostRegister.TOGGLED,
        HostRegister.ERASED,
        HostRegister.INTERRUPT_PENDING,
    ):
        yield slot.value << 3, 1, 15
    yield HostRegister.STREAM.address, None, 15
    yield HostRegister.STREAM.address, 1, 15
    yield HostRegister.CONTROL.address, RUN | ZERO_WORDS, 15
    yield HostRegister.CONTROL.address, STEP | ZERO_COTANGENTS, 15
    yield HostRegister.CONTROL.value << 3, RUN | STEP, 15
    yield HostRegister.CONTROL.value << 3, 1 << len(HostRegister.CONTROL.fields), 15
    # of direct memory access
    for slot in HostRegister:
        if slot.dma:
            yield slot.address, None, 15
            yield slot.address, 4, 15
    for field in HostRegister.CONTROL.fields:
        if field.dma:
            yield HostRegister.CONTROL.address, field.mask, 15
    yield HostRegister.CONTROL.value << 3, RUN, 7
    yield HostRegister.MODES.value << 3, 7, 1


def test_what_is_nowhere_is_refused() -> None:
    async def script(bus: Any) -> None:
        await bus.load(bench.program(Q32))
        # STREAM would move POINTER, which stands outside of the memories.
        slots = [slot for slot in HostRegister if slot is not HostRegister.STREAM and not slot.dma]
        before = [await bus.get(slot) for slot in slots]
        for address, word, sel in bad_transfers(bench.CODE_WORDS, bench.DATA_WORDS):
            with pytest.raises(bench.Refused):
                await bus.transfer(address, word, sel)
        assert [await bus.get(slot) for slot in slots] == before
        assert await bus.read(Area.REGISTERS, 0) == 0

    bench.on_bus(Q32, script)


def test_a_running_core_is_left_alone() -> None:
    # Whatever is asked of it in the middle of a program, it ends as if nothing had been asked.
    p, m = bench.program(Q32), rg.Machine(bench.program(Q32), memory=bench.DATA_WORDS)
    m.run()

    async def script(bus: Any) -> None:
        await bus.load(p)
        await bus.set(HostRegister.CONTROL, RUN)
        for slot, word in (
            (HostRegister.DIRECTION, 1),
            (HostRegister.PC, 0),
            (HostRegister.MODES, 7),
            (HostRegister.CODE_SIZE, 1),
        ):
            await bus.refuses(Area.CONTROL, slot.value, word)
        for command in (RUN, STEP, TURN, TURN | STOP, FORGET, CLEAR):
            await bus.refuses(Area.CONTROL, HostRegister.CONTROL.value, command)
        await bus.refuses(Area.REGISTERS, 1, 1)
        with pytest.raises(bench.Refused):
            await bus.read(Area.CODE, 0)
        assert (await bus.get(HostRegister.STATUS)) & 1
        await bus.finished()
        assert await bus.get(HostRegister.PC) == m.pc
        assert await bus.get(HostRegister.CYCLES) == m.cycles
        assert [await bus.read(Area.REGISTERS, r) for r in range(6)] == list(m.registers[:6])

    bench.on_bus(Q32, script)


def test_stop_ends_with_an_instruction() -> None:
    p = bench.program(Q32)

    async def script(bus: Any) -> None:
        await bus.load(p)
        await bus.set(HostRegister.CONTROL, STOP)
        await bus.set(HostRegister.CONTROL, RUN)
        await bus.set(HostRegister.CONTROL, STOP)
        found = bench.status(await bus.finished())
        assert not found["halted"]
        retired = await bus.get(HostRegister.RETIRED)
        assert 0 < retired < 10
        m = rg.Machine(p, memory=bench.DATA_WORDS)
        m.run(retired)
        assert await bus.get(HostRegister.PC) == m.pc
        await bus.set(HostRegister.CONTROL, RUN)
        assert bench.status(await bus.finished())["halted"]

    bench.on_bus(Q32, script)


@pytest.mark.long
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
def test_reset_at_any_cycle(every: int) -> None:
    """Of the first instructions, and some later ones; in the long tier of the whole program, and after its end."""
    p, m = bench.program(Q32), rg.Machine(bench.program(Q32), memory=bench.DATA_WORDS)
    m.run()
    rng = random.Random(1)
    delays = range(1, m.cycles + 20) if every == 1 else [*range(1, 60, every), *(rng.randrange(200) for _ in range(5))]

    async def script(bus: Any) -> None:
        ctx, reset = bus.ctx, bus.reset
        await bus.load(p)
        for delay in delays:
            await bus.set(HostRegister.CODE_SIZE, len(p.code))
            await bus.set(HostRegister.PC, p.start)
            await bus.set(HostRegister.CONTROL, RUN)
            await ctx.tick().repeat(delay)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            assert await bus.get(HostRegister.STATUS) == 0
            assert (
                await bus.get(HostRegister.PC),
                await bus.get(HostRegister.BR),
                await bus.get(HostRegister.CYCLES),
            ) == (0, 0, 0)
            for r in range(6):
                await bus.write(Area.REGISTERS, r, 0)
            await bus.write(Area.DATA, 2, 0)
        # Memories keep what they had, the code too; once the words are as they were, all is as ever.
        await bus.set(HostRegister.CODE_SIZE, len(p.code))
        await bus.set(HostRegister.PC, p.start)
        await bus.set(HostRegister.CONTROL, RUN)
        assert bench.status(await bus.finished())["halted"]
        assert [await bus.read(Area.REGISTERS, r) for r in range(6)] == list(m.registers[:6])
        assert await bus.get(HostRegister.CYCLES) == m.cycles

    bench.on_bus(Q32, script)


def test_a_transfer_given_up_leaves_the_bus_free() -> None:
    async def script(bus: Any) -> None:
        ctx, lines = bus.ctx, bus.bus
        await bus.write(Area.REGISTERS, 3, 77)
        ctx.set(lines.adr, (Area.REGISTERS.value << 28 | 3 << 3) >> 2)
        ctx.set(lines.cyc, 1)
        ctx.set(lines.stb, 1)
        await ctx.tick()
        ctx.set(lines.cyc, 0)
        await ctx.tick()
        ctx.set(lines.stb, 0)
        for _ in range(4):
            await ctx.tick()
            assert not ctx.get(lines.ack)
        assert await bus.read(Area.REGISTERS, 3) == 77

    bench.on_bus(Q32, script)
