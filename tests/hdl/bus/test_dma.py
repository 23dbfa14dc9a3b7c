"""Direct memory access: words that the co-processor copies to and from a memory of the host's, with pauses, refusals, stops and resets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from retrograd.hdl.bus.register_map import Area, HostRegister
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format
from support import bench

Q32, Q64 = Format(32, 16), Format(64, 32)
CONTROL = HostRegister.CONTROL
COPIES = COPY_IN, COPY_OUT = CONTROL.field("copy_in").mask, CONTROL.field("copy_out").mask
RUN, STOP, ZERO_WORDS = (CONTROL.field(name).mask for name in ("run", "stop", "zero_words"))
COPIED, FAILED = (HostRegister.INTERRUPT_PENDING.field(name).mask for name in ("copied", "copy_failed"))
#: the byte address of the host's memory
FIRST = 0x4000_0000


def words(n: int, seed: int = 1) -> list[int]:
    rng = random.Random(seed)
    return [rng.getrandbits(32) for _ in range(n)]


def halves(area: Area, w: Format) -> int:
    """Words of the host's memory for a word of the area."""
    return 2 if area is Area.CODE or w.width > 32 else 1


def as_words(found: list[int], area: Area, w: Format) -> list[int]:
    """Words of the host's memory as words of the area."""
    if halves(area, w) == 1:
        return [word & w.mask for word in found]
    return [low | high << 32 for low, high in zip(found[::2], found[1::2], strict=True)]


async def start(bus: Any, command: int, at: int, to: int, length: int) -> None:
    """A command with `at`, the byte address in the host's memory, and `to`, that of the co-processor's word."""
    await bus.set(HostRegister.DMA_ADDRESS, at)
    await bus.set(HostRegister.POINTER, to)
    await bus.set(HostRegister.DMA_LENGTH, length)
    await bus.transfer(CONTROL.address, command)


async def stands(bus: Any) -> tuple[int, int, int]:
    """(DMA_ADDRESS, POINTER, DMA_LENGTH)."""
    slots = (HostRegister.DMA_ADDRESS, HostRegister.POINTER, HostRegister.DMA_LENGTH)
    address, pointer, length = [await bus.get(slot) for slot in slots]
    return address, pointer, length


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("w", "seed"),
    [
        (Q32, 1),
        *(pytest.param(w, seed, marks=LONG) for w, seed in ((Q32, None), (Q64, None), (Q64, 1), (Format(8, 4), 1))),
    ],
)
def test_words_come_and_go(w: Format, seed: int | None) -> None:
    """Of each area, from any place; the words around them stay, in both memories."""
    memory = bench.Memory(words(96), FIRST, seed=seed)

    async def script(bus: Any) -> None:
        for area, first, n in (
            (Area.CODE, 3, 20), (Area.DATA, 0, 16), (Area.DATA_COTANGENTS, 5, 1), (Area.REGISTERS, 200, 19),
            (Area.REGISTER_COTANGENTS, 255, 1),
        ):  # fmt: skip
            size, at = n * halves(area, w), FIRST + 4 * 7
            host, kept = words(96, n), list(memory.words)
            memory.words[:] = host
            await start(bus, COPY_IN, at, area.address(first), n)
            found = bench.status(await bus.finished())
            assert (found["copying"], found["copy_failed"]) == (0, 0)
            expected = as_words(host[7 : 7 + size], area, w)
            mask = (1 << 32 * halves(area, w)) - 1
            assert [await bus.read(area, first + i) & mask for i in range(n)] == expected
            assert memory.words == host
            assert await stands(bus) == (at + 4 * size, area.address(first) + 8 * n, 0)
            assert await bus.get(HostRegister.INTERRUPT_PENDING) == COPIED
            # Back, to another place.
            memory.words[:] = kept
            await start(bus, COPY_OUT, FIRST, area.address(first), n)
            await bus.finished()
            assert as_words(memory.words[:size], area, w) == expected
            assert memory.words[size:] == kept[size:]
            assert await stands(bus) == (FIRST + 4 * size, area.address(first) + 8 * n, 0)

    bench.on_bus(bench.parameters(w, dma=True), script, memory=memory)


@pytest.mark.parametrize("command", COPIES, ids=["in", "out"])
def test_a_word_of_the_memory_takes_a_clock(command: int) -> None:
    """With one clock more for each 16 words, and three for the whole copy. The last word of a burst is announced as the last."""
    memory = bench.Memory(words(64), FIRST)

    async def script(bus: Any) -> None:
        for area, at, n in ((Area.CODE, 0, 32), (Area.CODE, 4, 20), (Area.DATA, 36, 16), (Area.REGISTERS, 60, 1)):
            memory.seen.clear()
            memory.cycles = 0
            await bus.set(HostRegister.DMA_ADDRESS, FIRST + at)
            await bus.set(HostRegister.POINTER, area.address(0))
            await bus.set(HostRegister.DMA_LENGTH, n)
            lines = bus.bus
            for name, value in (
                ("adr", CONTROL.address >> 2),
                ("we", 1),
                ("dat_w", command),
                ("sel", 15),
                ("cyc", 1),
                ("stb", 1),
            ):
                bus.ctx.set(getattr(lines, name), value)
            await bus.ctx.tick()
            bus.ctx.set(lines.cyc, 0)
            await bus.ctx.tick()
            clocks = 0
            while bus.ctx.get(bus.made.busy):
                await bus.ctx.tick()
                clocks += 1
            size = n * halves(area, Q32)
            bursts = 1 + (at // 4 + size - 1) // 16 - at // 64
            assert memory.seen == [(FIRST + at + 4 * i, command == COPY_OUT) for i in range(size)]
            assert memory.cycles == size
            assert clocks == size + bursts + 1

    bench.on_bus(bench.parameters(Q32, dma=True), script, memory=memory)


def test_copies_that_are_refused() -> None:
    """Before they begin, with nothing changed: a place or an end outside of an area, an address between words, two commands at once."""
    memory = bench.Memory(words(64), FIRST)

    async def script(bus: Any) -> None:
        last = Area.DATA.address(bench.DATA_WORDS - 1)
        await start(bus, COPY_IN, FIRST, last, 1)
        await bus.finished()
        after = (FIRST + 4, last + 8, 0)
        assert await stands(bus) == after
        for at in (FIRST + 1, FIRST + 2, 3):
            with pytest.raises(bench.Refused):
                await bus.transfer(HostRegister.DMA_ADDRESS.address, at)
        assert await stands(bus) == after
        seen = len(memory.seen)
        for command in COPIES:
            for to, length in (
                (last, 2), (last + 8, 1), (last + 8 * 100, 0), (Area.CODE.address(30), 3), (Area.REGISTERS.address(1), 256),
                (0, 1), (HostRegister.MODES.address, 1), (Area.DATA.address((1 << 25) - 1), 1), (0x6000_0000, 1),
                (Area.DATA.address(0), 1 << 40), (Area.DATA.address(0), (1 << 10) + 1),
            ):  # fmt: skip
                with pytest.raises(bench.Refused):
                    await start(bus, command, FIRST, to, length)
                assert await bus.get(HostRegister.INTERRUPT_PENDING) == COPIED
        await bus.set(HostRegister.POINTER, Area.DATA.address(0))
        await bus.set(HostRegister.DMA_LENGTH, 1)
        for commands in (
            COPY_IN | COPY_OUT,
            COPY_IN | RUN,
            COPY_OUT | ZERO_WORDS,
            COPY_IN | CONTROL.field("step").mask,
        ):
            with pytest.raises(bench.Refused):
                await bus.transfer(CONTROL.address, commands)
        assert len(memory.seen) == seen

    bench.on_bus(bench.parameters(Q32, dma=True), script, memory=memory)


def test_a_copy_of_no_words() -> None:
    """Also where the area ends: it is done at once, and reaches no memory."""
    memory = bench.Memory([], FIRST)

    async def script(bus: Any) -> None:
        for command in COPIES:
            for to in (Area.DATA.address(3), Area.DATA.address(bench.DATA_WORDS)):
                await start(bus, command, FIRST, to, 0)
                assert not (await bus.finished()) & HostRegister.STATUS.field("copy_failed").mask
                assert await bus.get(HostRegister.INTERRUPT_PENDING) == COPIED
                assert await stands(bus) == (FIRST, to, 0)
        assert not memory.seen

    bench.on_bus(bench.parameters(Q32, dma=True), script, memory=memory)


def test_a_running_core_keeps_copies_out() -> None:
    """And a copy keeps out the host: it reads slots, and stops the copy."""
    memory = bench.Memory(words(64), FIRST, seed=3)

    async def script(bus: Any) -> None:
        await bus.load(bench.program(Q32))
        await bus.set(HostRegister.POINTER, Area.DATA.address(0))
        await bus.set(HostRegister.DMA_LENGTH, 3)
        await bus.set(HostRegister.DMA_ADDRESS, FIRST)
        await bus.transfer(CONTROL.address, RUN)
        for command in COPIES:
            with pytest.raises(bench.Refused):
                await bus.transfer(CONTROL.address, command)
        for slot in (HostRegister.DMA_ADDRESS, HostRegister.DMA_LENGTH):
            await bus.refuses(Area.CONTROL, slot.value, 8)
        assert bench.status(await bus.get(HostRegister.STATUS))["busy"]
        await bus.finished()
        assert not memory.seen
        await start(bus, COPY_IN, FIRST, Area.REGISTERS.address(0), 60)
        for slot in HostRegister:
            if slot is not HostRegister.STREAM:
                await bus.get(slot)
        found = bench.status(await bus.get(HostRegister.STATUS))
        assert (found["busy"], found["copying"]) == (1, 1)
        for command in (RUN, COPY_IN, CONTROL.field("turn").mask):
            with pytest.raises(bench.Refused):
                await bus.transfer(CONTROL.address, command)
        for address in (Area.REGISTERS.address(0), Area.CODE.address(0), HostRegister.STREAM.address, 0x7000_0000):
            with pytest.raises(bench.Refused):
                await bus.transfer(address)
            await bus.refuses(Area(address >> 28) if address >> 28 < 6 else Area.CODE, address >> 3 & 0xFF, 1)
        await bus.refuses(Area.CONTROL, HostRegister.POINTER.value, 0)
        await bus.finished()
        assert [await bus.read(Area.REGISTERS, r) for r in range(60)] == memory.words[:60]

    bench.on_bus(bench.parameters(Q32, dma=True), script, memory=memory)


@pytest.mark.parametrize(
    ("w", "command"), [(Q32, COPY_IN), (Q32, COPY_OUT), pytest.param(Q64, COPY_IN, marks=pytest.mark.long)]
)
def test_a_word_that_the_memory_refuses(w: Format, command: int) -> None:
    """Each of the words in turn, of instructions and of data: the words before it are copied, and the slots have its place."""

    async def script(bus: Any) -> None:
        for area, n in ((Area.DATA, 3), (Area.CODE, 2)):
            size = halves(area, w) * n
            for k in range(size):
                memory.refused = {FIRST + 4 * k}
                before = words(32, k)
                for i in range(n):
                    await bus.write(area, i, i + 1)
                memory.words[:] = before
                await start(bus, command, FIRST, area.address(0), n)
                found = bench.status(await bus.finished())
                assert (found["copying"], found["copy_failed"]) == (0, 1)
                assert await bus.get(HostRegister.INTERRUPT_PENDING) == FAILED
                done = k // halves(area, w)
                # A word that could not be written out has been read.
                read = done + (command == COPY_OUT)
                assert await stands(bus) == (FIRST + 4 * k, area.address(read), n - done)
                inside = [await bus.read(area, i) for i in range(n)]
                if command == COPY_IN:
                    assert inside == [*as_words(before[: halves(area, w) * done], area, w), *range(done + 1, n + 1)]
                    assert memory.words == before
                else:
                    out = [half for i in range(n) for half in ((i + 1, 0) if halves(area, w) == 2 else (i + 1,))]
                    assert memory.words == out[:k] + before[k:]
                # The next copy is as ever.
                memory.refused = set()
                await start(bus, command, FIRST, area.address(0), n)
                assert not bench.status(await bus.finished())["copy_failed"]

    memory = bench.Memory(words(32), FIRST, seed=5)
    bench.on_bus(bench.parameters(w, dma=True), script, memory=memory)


@pytest.mark.long
@pytest.mark.parametrize("command", COPIES, ids=["in", "out"])
@pytest.mark.parametrize("delays", [(2, 5, 11), pytest.param((*range(1, 24), 35, 60), marks=pytest.mark.long)], ids=len)
def test_a_copy_that_is_stopped(command: int, delays: Sequence[int]) -> None:
    """After any time: whole words have been copied, the slots have where it goes on, and it goes on from there."""

    async def script(bus: Any) -> None:
        partly = 0
        for area, n in ((Area.DATA, bench.DATA_WORDS), (Area.CODE, 24)):
            size = n * halves(area, Q32)
            for delay in delays:
                inside = [word & 0xFFFFFFFF for word in words(n, delay)]
                for i, word in enumerate(inside):
                    await bus.write(area, i, word)
                memory.words[:] = before = words(64, delay + 1)
                await start(bus, command, FIRST, area.address(0), n)
                await bus.ctx.tick().repeat(delay)
                await bus.transfer(CONTROL.address, STOP)
                assert not bench.status(await bus.finished())["copy_failed"]
                assert await bus.get(HostRegister.INTERRUPT_PENDING) == COPIED
                left = await bus.get(HostRegister.DMA_LENGTH)
                done, partly = n - left, partly + (0 < left < n)
                assert await stands(bus) == (FIRST + 4 * halves(area, Q32) * done, area.address(done), left)
                for copied in (done, n):
                    now, part = [await bus.read(area, i) for i in range(n)], copied * halves(area, Q32)
                    if command == COPY_IN:
                        assert now == as_words(before[:part], area, Q32) + inside[copied:]
                    else:
                        assert as_words(memory.words[:part], area, Q32) == inside[:copied]
                        assert memory.words[part:] == before[part:]
                    await bus.transfer(CONTROL.address, command)
                    await bus.finished()
                assert await stands(bus) == (FIRST + 4 * size, area.address(n), 0)
        assert partly > 2

    memory = bench.Memory(words(64), FIRST, seed=7)
    bench.on_bus(bench.parameters(Q32, dma=True), script, memory=memory)


@pytest.mark.long
@pytest.mark.parametrize("command", COPIES, ids=["in", "out"])
@pytest.mark.parametrize("delays", [(1, 2, 7, 18), pytest.param(range(1, 60), marks=pytest.mark.long)], ids=len)
def test_a_reset_in_any_cycle_of_a_copy(command: int, delays: Sequence[int]) -> None:
    """It lets the bus go at once. The words before it have been copied, and the next copy is as ever."""

    async def script(bus: Any) -> None:
        ctx, n = bus.ctx, bench.DATA_WORDS
        for delay in delays:
            inside = words(n, delay)
            for i, word in enumerate(inside):
                await bus.write(Area.DATA, i, word)
            memory.words[:] = before = words(n, delay + 1)
            await start(bus, command, FIRST, Area.DATA.address(0), n)
            await ctx.tick().repeat(delay)
            ctx.set(bus.reset, 1)
            await ctx.tick()
            ctx.set(bus.reset, 0)
            assert not ctx.get(bus.made.memory.cyc)
            assert await stands(bus) == (0, 0, 0)
            assert await bus.get(HostRegister.STATUS) == await bus.get(HostRegister.INTERRUPT_PENDING) == 0
            now = [await bus.read(Area.DATA, i) for i in range(n)]
            source, target, old = (before, now, inside) if command == COPY_IN else (inside, memory.words, before)
            done = sum(word == new for word, new in zip(target, source, strict=True))
            assert target == source[:done] + old[done:]
            await start(bus, command, FIRST, Area.DATA.address(0), n)
            await bus.finished()
            assert memory.words == [await bus.read(Area.DATA, i) for i in range(n)]

    memory = bench.Memory(words(bench.DATA_WORDS), FIRST, seed=9)
    bench.on_bus(bench.parameters(Q32, dma=True), script, memory=memory)


def test_a_core_without_it_has_none_of_it() -> None:
    """Slots, commands and events are refused or zero, and there is no bus to a memory."""

    async def script(bus: Any) -> None:
        assert not hasattr(bus.made, "memory")
        assert not HostRegister.IDENTITY.field("dma").of(await bus.get(HostRegister.IDENTITY))
        for slot in (HostRegister.DMA_ADDRESS, HostRegister.DMA_LENGTH):
            with pytest.raises(bench.Refused):
                await bus.transfer(slot.address)
            await bus.refuses(Area.CONTROL, slot.value, 0)
        for command in COPIES:
            with pytest.raises(bench.Refused):
                await bus.transfer(CONTROL.address, command)
        await bus.set(HostRegister.INTERRUPT_ENABLE, 63)
        assert await bus.get(HostRegister.INTERRUPT_ENABLE) == 15

    bench.on_bus(Q32, script)


@pytest.mark.long
@pytest.mark.parametrize(("core", "lanes"), [("fast", 1), ("barrel", 8)])
def test_other_cores(core: str, lanes: int) -> None:
    """Words reach all threads, or the thread that is selected."""
    memory, n = bench.Memory(words(64), FIRST, seed=11), 12

    async def script(bus: Any) -> None:
        whole = HostRegister.LANE.field("all").mask
        for area in (Area.DATA, Area.REGISTERS, Area.DATA_COTANGENTS, Area.REGISTER_COTANGENTS):
            for lane in (whole, 0, lanes - 1):
                memory.words[:] = words(64, lane)
                await bus.set(HostRegister.LANE, lane)
                await start(bus, COPY_IN, FIRST, area.address(2), n)
                await bus.finished()
                for seen in range(lanes) if lane == whole else (lane,):
                    await bus.set(HostRegister.LANE, seen)
                    assert [await bus.read(area, 2 + i) for i in range(n)] == memory.words[:n]
                await start(bus, COPY_OUT, FIRST + 4 * 20, area.address(2), n)
                await bus.finished()
                assert memory.words[20 : 20 + n] == memory.words[:n]

    bench.on_bus(Parameters(Q32, 32, 16, core=core, lanes=lanes, dma=True), script, memory=memory)
