"""The host interface: a program through the bus, halves of words, words of zeros, the pointer, the interrupt."""

from __future__ import annotations

import random
from typing import Any

import pytest
from retrograd.hdl.bus.register_map import MAGIC, UNLIMITED, Area, HostRegister
from retrograd.hdl.microword import TrapCause
from retrograd.isa.words import Format
from support import bench

import retrograd as rg

Q32, Q64 = Format(32, 16), Format(64, 32)
RUN, STEP, STOP, TURN, FORGET, CLEAR, ZERO_WORDS, ZERO_COTANGENTS = (
    field.mask for field in HostRegister.CONTROL.fields[:8]
)


@pytest.mark.long
@pytest.mark.parametrize("w", [Q32, pytest.param(Q64, marks=pytest.mark.long)], ids=str)
def test_a_program_there_and_back(w: Format) -> None:
    p, m = bench.program(w), rg.Machine(bench.program(w), memory=bench.DATA_WORDS)

    async def script(bus: Any) -> None:
        assert await bus.get(HostRegister.IDENTITY) == (4 << 8 | 5) << 32 | MAGIC << 16 | w.width << 8 | w.frac
        await bus.load(p)
        await bus.set(HostRegister.CONTROL, RUN)
        found = bench.status(await bus.finished())
        assert (found["halted"], found["trapped"], found["backward"]) == (1, 0, 0)
        m.run()
        assert await bus.get(HostRegister.PC) == m.pc == p.finish
        assert [await bus.read(Area.REGISTERS, r) for r in range(6)] == list(m.registers[:6])
        assert await bus.read(Area.DATA, 2) == m.memory[2] == 25
        assert await bus.get(HostRegister.CYCLES) == m.cycles
        assert await bus.get(HostRegister.RETIRED) == m.retired
        assert await bus.get(HostRegister.TOGGLED) > 10
        assert await bus.get(HostRegister.ERASED) == 0
        await bus.set(HostRegister.CONTROL, TURN | CLEAR)
        there = m.cycles
        m.turn()
        await bus.set(HostRegister.CONTROL, RUN)
        assert bench.status(await bus.finished())["backward"] == 1
        m.run()
        assert await bus.get(HostRegister.PC) == m.pc == p.start
        assert [await bus.read(Area.REGISTERS, r) for r in range(6)] == [0] * 6
        assert await bus.get(HostRegister.CYCLES) == m.cycles - there

    bench.on_bus(w, script)


def test_steps() -> None:
    p, m = bench.program(Q32), rg.Machine(bench.program(Q32), memory=bench.DATA_WORDS)

    async def script(bus: Any) -> None:
        await bus.load(p)
        for _ in range(3):
            await bus.set(HostRegister.CONTROL, STEP)
            await bus.finished()
            m.step()
            assert await bus.get(HostRegister.PC) == m.pc
        await bus.set(HostRegister.STEPS, 4)
        await bus.set(HostRegister.CONTROL, RUN)
        assert not bench.status(await bus.finished())["halted"]
        m.run(4)
        assert (await bus.get(HostRegister.PC), await bus.get(HostRegister.RETIRED)) == (m.pc, 7)

    bench.on_bus(Q32, script)


def test_cotangents_and_modes() -> None:
    p = rg.assemble(".format 32, 16\nstart\nfmov.add r1, r2\nfinish")

    async def script(bus: Any) -> None:
        await bus.load(p)
        await bus.write(Area.REGISTERS, 1, 0x7FFFFFFF)
        await bus.write(Area.REGISTERS, 2, 1)
        await bus.write(Area.REGISTER_COTANGENTS, 1, 5)
        await bus.set(HostRegister.MODES, 0b011)
        await bus.set(HostRegister.CONTROL, RUN)
        found = bench.status(await bus.finished())
        assert (found["trapped"], found["trap"]) == (1, TrapCause.OVERFLOW.value)
        # The trap has changed nothing, and the machine can go on another way.
        assert await bus.get(HostRegister.PC) == 1
        await bus.set(HostRegister.MODES, 0b001)
        await bus.set(HostRegister.CONTROL, RUN)
        assert bench.status(await bus.finished()) == bench.status(1 << 1)
        assert await bus.read(Area.REGISTERS, 1) == 0x80000000
        assert await bus.read(Area.REGISTER_COTANGENTS, 2) == (-5) % (1 << 32)

    bench.on_bus(Q32, script)


def test_an_illegal_instruction_traps() -> None:
    add = rg.TABLE["mov.add"].code << 56
    wrong = [
        0xFF << 56, 0, add | 1 << 48 | 1 << 40, add | 2 << 48 | 1, add | 2 << 48 | 1 << 32,
        rg.TABLE["call"].code << 56 | 0x80000000,
    ]  # fmt: skip

    async def script(bus: Any) -> None:
        for word in wrong:
            await bus.write(Area.CODE, 0, word)
            await bus.set(HostRegister.PC, 0)
            await bus.set(HostRegister.CONTROL, RUN)
            found = bench.status(await bus.finished())
            assert found["trap"] == TrapCause.ILLEGAL.value, hex(word)
            assert TrapCause.ILLEGAL.code == "RG0306"
        assert await bus.get(HostRegister.RETIRED) == 0

    bench.on_bus(Q32, script)


# ---------------------------------------------------------------- halves and limits


def test_a_half_belongs_to_its_slot() -> None:
    word = 0x1234_5678_9ABC_DEF0

    async def script(bus: Any) -> None:
        code = [Area.CODE.value << 28 | at << 3 for at in range(4)]
        await bus.write(Area.CODE, 1, word)
        assert await bus.read(Area.CODE, 1) == word
        # The low half of 2 was lost: that of 3 does not take the high half of 2, and drops it.
        await bus.transfer(code[2] + 4, word >> 32)
        await bus.transfer(code[3], 7)
        assert await bus.read(Area.CODE, 3) == 7
        await bus.transfer(code[2], 9)
        assert await bus.read(Area.CODE, 2) == 9
        # A read and a refused transfer in between change nothing.
        await bus.transfer(code[2] + 4, 5)
        assert await bus.read(Area.CODE, 1) == word
        await bus.refuses(Area.DATA, bench.DATA_WORDS, 1)
        await bus.transfer(code[2], 6)
        assert await bus.read(Area.CODE, 2) == 5 << 32 | 6
        # The same register of another area is another slot, and so is the high half of a word that was not read.
        await bus.transfer(Area.REGISTERS.value << 28 | 4, 1)
        await bus.transfer(code[0], 3)
        assert await bus.read(Area.CODE, 0) == 3
        await bus.transfer(code[1])
        for other in (code[2] + 4, 4, Area.DATA.value << 28 | 1 << 3 | 4):
            with pytest.raises(bench.Refused):
                await bus.transfer(other)
        assert await bus.transfer(code[1] + 4) == word >> 32

    bench.on_bus(Q32, script)


def test_steps_have_64_bits() -> None:
    p = bench.program(Q32)

    async def script(bus: Any) -> None:
        assert await bus.get(HostRegister.STEPS) == UNLIMITED
        await bus.load(p)
        await bus.set(HostRegister.STEPS, 0)
        await bus.set(HostRegister.CONTROL, RUN)
        assert bench.status(await bus.finished()) == bench.status(0)
        assert (await bus.get(HostRegister.PC), await bus.get(HostRegister.RETIRED)) == (p.start, 0)
        await bus.set(HostRegister.CONTROL, STEP)
        await bus.finished()
        assert await bus.get(HostRegister.RETIRED) == 1
        await bus.set(HostRegister.STEPS, (1 << 32) + 1)
        assert await bus.get(HostRegister.STEPS) == (1 << 32) + 1
        await bus.set(HostRegister.CONTROL, RUN)
        assert bench.status(await bus.finished())["halted"]

    bench.on_bus(Q32, script)


# ---------------------------------------------------------------- zeroes, the pointer, the interrupt


@pytest.mark.parametrize("registers", [0, 3, 256])
def test_words_are_set_to_zero_up_to_the_sizes(registers: int) -> None:
    areas = (Area.REGISTERS, Area.DATA, Area.REGISTER_COTANGENTS, Area.DATA_COTANGENTS)

    async def script(bus: Any) -> None:
        for command, cleared in (
            (ZERO_WORDS, areas[:2]), (ZERO_COTANGENTS, areas[2:]), (ZERO_WORDS | ZERO_COTANGENTS, areas),
        ):  # fmt: skip
            for area in areas:
                for at in range(8):
                    await bus.write(area, at, 100 + at)
            await bus.set(HostRegister.REGISTER_SIZE, registers)
            await bus.set(HostRegister.DATA_SIZE, 5)
            await bus.set(HostRegister.CONTROL, command)
            if registers == 256:
                # No other command comes in between, nor a transfer to a memory.
                found = bench.status(await bus.get(HostRegister.STATUS))
                assert (found["busy"], found["zeroing"]) == (1, 1)
                await bus.refuses(Area.CONTROL, HostRegister.CONTROL.value, RUN)
                with pytest.raises(bench.Refused):
                    await bus.transfer(Area.DATA.address(0))
            await bus.finished()
            for area in areas:
                size = 5 if area in (Area.DATA, Area.DATA_COTANGENTS) else registers
                expected = [0 if area in cleared and at < size else 100 + at for at in range(8)]
                assert [await bus.read(area, at) for at in range(8)] == expected

    bench.on_bus(Q32, script)


def test_a_stream_of_words() -> None:
    words = [0x1234_5678_9ABC_DEF0, 7, 0xFFFF_FFFF_0000_0001]

    async def script(bus: Any) -> None:
        await bus.set(HostRegister.POINTER, Area.CODE.address(3) | 5)
        for word in words:
            await bus.set(HostRegister.STREAM, word)
        assert [await bus.read(Area.CODE, at) for at in (3, 4, 5)] == words
        assert await bus.get(HostRegister.POINTER) == Area.CODE.address(6)
        await bus.set(HostRegister.POINTER, Area.CODE.address(3))
        assert [await bus.get(HostRegister.STREAM) for _ in words] == words
        # Beyond the area all is refused, and the pointer stays.
        await bus.set(HostRegister.POINTER, Area.CODE.address(bench.CODE_WORDS - 1))
        await bus.set(HostRegister.STREAM, 5)
        with pytest.raises(bench.Refused):
            await bus.transfer(HostRegister.STREAM.address)
        await bus.refuses(Area.CONTROL, HostRegister.STREAM.value, 5)
        assert await bus.get(HostRegister.POINTER) == Area.CODE.address(bench.CODE_WORDS)

    bench.on_bus(Q32, script)


def test_a_block_of_transfers() -> None:
    """`cyc` and `stb` stay high: a write takes two cycles and a read of a memory three, through STREAM and to addresses."""
    words = [random.Random(1).getrandbits(32) for _ in range(6)]

    async def script(bus: Any) -> None:
        ctx, lines = bus.ctx, bus.bus

        async def block(addresses: list[int], data: list[int] | None) -> tuple[list[int], int]:
            found, cycles = list[int](), 0
            ctx.set(lines.cyc, 1)
            ctx.set(lines.stb, 1)
            ctx.set(lines.we, data is not None)
            for k, at in enumerate(addresses):
                ctx.set(lines.adr, at >> 2)
                ctx.set(lines.dat_w, 0 if data is None else data[k])
                while True:
                    await ctx.tick()
                    cycles += 1
                    assert not ctx.get(lines.err)
                    if ctx.get(lines.ack):
                        break
                found.append(ctx.get(lines.dat_r))
                # The next transfer stands on the bus in the cycle after the answer.
                await ctx.tick()
                cycles += 1
            ctx.set(lines.cyc, 0)
            ctx.set(lines.stb, 0)
            await ctx.tick()
            return found, cycles

        stream = [HostRegister.STREAM.address] * len(words)
        places = [Area.DATA.address(at) for at in range(len(words))]
        for there in (stream, places):
            for back in (stream, places):
                await bus.set(HostRegister.CONTROL, ZERO_WORDS)
                await bus.finished()
                await bus.set(HostRegister.POINTER, Area.DATA.address(0))
                assert (await block(there, words))[1] == 2 * len(words)
                await bus.set(HostRegister.POINTER, Area.DATA.address(0))
                assert await block(back, None) == (words, 3 * len(words))

    bench.on_bus(Q32, script)


def test_the_interrupt() -> None:
    halted, trapped, stopped, zeroed = (field.mask for field in HostRegister.INTERRUPT_PENDING.fields[:4])

    async def script(bus: Any) -> None:
        line = bus.made.interrupt

        async def event(command: int, steps: int, expected: int) -> None:
            """The command raises the line once it is done, and the line falls when the event is cleared."""
            await bus.set(HostRegister.STEPS, steps)
            await bus.set(HostRegister.CONTROL, command)
            await bus.finished()
            assert await bus.get(HostRegister.INTERRUPT_PENDING) == expected
            assert bench.status(await bus.get(HostRegister.STATUS))["interrupt"] == bus.ctx.get(line) == 1
            await bus.set(HostRegister.INTERRUPT_CLEAR, 15 & ~expected)
            assert bus.ctx.get(line)
            await bus.set(HostRegister.INTERRUPT_CLEAR, expected)
            assert not bus.ctx.get(line)
            assert await bus.get(HostRegister.INTERRUPT_PENDING) == 0

        await bus.load(bench.program(Q32))
        await bus.set(HostRegister.INTERRUPT_ENABLE, 15)
        assert not bus.ctx.get(line)
        await event(RUN, 0, stopped)
        await event(RUN, 3, stopped)
        await event(STEP, 3, stopped)
        await event(RUN, UNLIMITED, halted)
        await event(ZERO_COTANGENTS, 0, zeroed)
        await bus.set(HostRegister.PC, bench.CODE_WORDS)
        await event(RUN, UNLIMITED, trapped)
        # An event that is not enabled is pending, and raises nothing. It is enabled while the core is busy.
        await bus.set(HostRegister.INTERRUPT_ENABLE, halted)
        await bus.set(HostRegister.CONTROL, ZERO_WORDS)
        await bus.finished()
        assert await bus.get(HostRegister.INTERRUPT_PENDING) == zeroed
        assert not bus.ctx.get(line)
        await bus.set(HostRegister.CONTROL, ZERO_WORDS)
        assert await bus.get(HostRegister.INTERRUPT_PENDING) == 0
        await bus.set(HostRegister.INTERRUPT_ENABLE, zeroed)
        assert not bus.ctx.get(line)
        await bus.finished()
        assert bus.ctx.get(line)

    bench.on_bus(Q32, script)
