"""The host interface: a program through the bus and through the serial line, and what becomes of abuse."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator
from retrograd.hdl.bus.host_interface import COMMANDS, STATUS
from retrograd.hdl.bus.register_map import MAGIC, UNLIMITED, Area, HostRegister
from retrograd.hdl.bus.serial_interface import PAUSE
from retrograd.hdl.bus.top import Coprocessor, SerialCoprocessor
from retrograd.hdl.microword import TrapCause
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

import retrograd as rg

Q32, Q64 = Format(32, 16), Format(64, 32)
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
RUN, STEP, STOP, TURN, FORGET, CLEAR, ZERO_WORDS, ZERO_COTANGENTS = (1 << i for i in range(COMMANDS.size))


def program(w: Format) -> rg.Program:
    return rg.assemble(PROGRAM.format(w=w.width, f=w.frac))


class Refused(Exception):
    """The bus answered with an error."""


class Bus:
    """A master of the bus, and what it knows of the register map."""

    def __init__(self, ctx: Any, bus: Any) -> None:
        self.ctx, self.bus = ctx, bus

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


def coprocessor(w: Format) -> Coprocessor:
    return Coprocessor(parameters(w))


class Bench:
    """A co-processor on a bus, simulated: to make one takes seconds, to begin again from its reset nothing."""

    def __init__(self, w: Format) -> None:
        self.made = coprocessor(w)
        #: resets it, as a host's wire would
        self.reset = Signal()
        self._script: Callable[[Bus], Awaitable[None]] | None = None
        self._simulator = Simulator(ResetInserter(self.reset)(self.made))
        self._simulator.add_clock(1e-6)
        self._simulator.add_testbench(self._run)

    async def _run(self, ctx: Any) -> None:
        assert self._script is not None
        await self._script(Bus(ctx, self.made.bus))

    def run(self, script: Callable[[Bus], Awaitable[None]]) -> None:
        if self._script is not None:
            self._simulator.reset()
        self._script = script
        self._simulator.run()


_BENCHES: dict[Format, Bench] = {}


def bench(w: Format) -> Bench:
    if w not in _BENCHES:
        _BENCHES[w] = Bench(w)
    return _BENCHES[w]


def on_bus(w: Format, script: Callable[[Bus], Awaitable[None]]) -> None:
    """Run a script against a co-processor that was reset. One whose script failed is not used again."""
    used = _BENCHES.pop(w, None) or Bench(w)
    used.run(script)
    _BENCHES[w] = used


def status(word: int) -> dict[str, int]:
    return {name: word >> field.offset & ((1 << field.width) - 1) for name, field in STATUS}


# ---------------------------------------------------------------- use


@pytest.mark.share(0)
@pytest.mark.parametrize("w", [Q32, pytest.param(Q64, marks=pytest.mark.slow)], ids=str)
def test_a_program_there_and_back(w: Format) -> None:
    p, m = program(w), rg.Machine(program(w), memory=DATA_WORDS)

    async def script(bus: Bus) -> None:
        assert await bus.get(HostRegister.IDENTITY) == (4 << 8 | 5) << 32 | MAGIC << 16 | w.width << 8 | w.frac
        await bus.load(p)
        await bus.set(HostRegister.CONTROL, RUN)
        found = status(await bus.finished())
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
        assert status(await bus.finished())["backward"] == 1
        m.run()
        assert await bus.get(HostRegister.PC) == m.pc == p.start
        assert [await bus.read(Area.REGISTERS, r) for r in range(6)] == [0] * 6
        assert await bus.get(HostRegister.CYCLES) == m.cycles - there

    on_bus(w, script)


def test_steps() -> None:
    p, m = program(Q32), rg.Machine(program(Q32), memory=DATA_WORDS)

    async def script(bus: Bus) -> None:
        await bus.load(p)
        for _ in range(3):
            await bus.set(HostRegister.CONTROL, STEP)
            await bus.finished()
            m.step()
            assert await bus.get(HostRegister.PC) == m.pc
        await bus.set(HostRegister.STEPS, 4)
        await bus.set(HostRegister.CONTROL, RUN)
        assert not status(await bus.finished())["halted"]
        m.run(4)
        assert (await bus.get(HostRegister.PC), await bus.get(HostRegister.RETIRED)) == (m.pc, 7)

    on_bus(Q32, script)


def test_cotangents_and_modes() -> None:
    p = rg.assemble(".format 32, 16\nstart\nfmov.add r1, r2\nfinish")

    async def script(bus: Bus) -> None:
        await bus.load(p)
        await bus.write(Area.REGISTERS, 1, 0x7FFFFFFF)
        await bus.write(Area.REGISTERS, 2, 1)
        await bus.write(Area.REGISTER_COTANGENTS, 1, 5)
        await bus.set(HostRegister.MODES, 0b011)
        await bus.set(HostRegister.CONTROL, RUN)
        found = status(await bus.finished())
        assert (found["trapped"], found["trap"]) == (1, TrapCause.OVERFLOW.value)
        # The trap has changed nothing, and the machine can go on another way.
        assert await bus.get(HostRegister.PC) == 1
        await bus.set(HostRegister.MODES, 0b001)
        await bus.set(HostRegister.CONTROL, RUN)
        assert status(await bus.finished()) == status(1 << 1)
        assert await bus.read(Area.REGISTERS, 1) == 0x80000000
        assert await bus.read(Area.REGISTER_COTANGENTS, 2) == (-5) % (1 << 32)

    on_bus(Q32, script)


def test_an_illegal_instruction_traps() -> None:
    add = rg.TABLE["mov.add"].code << 56
    wrong = [
        0xFF << 56, 0, add | 1 << 48 | 1 << 40, add | 2 << 48 | 1, add | 2 << 48 | 1 << 32,
        rg.TABLE["call"].code << 56 | 0x80000000,
    ]  # fmt: skip

    async def script(bus: Bus) -> None:
        for word in wrong:
            await bus.write(Area.CODE, 0, word)
            await bus.set(HostRegister.PC, 0)
            await bus.set(HostRegister.CONTROL, RUN)
            found = status(await bus.finished())
            assert found["trap"] == TrapCause.ILLEGAL.value, hex(word)
            assert TrapCause.ILLEGAL.code == "RG0306"
        assert await bus.get(HostRegister.RETIRED) == 0

    on_bus(Q32, script)


# ---------------------------------------------------------------- abuse


def bad_transfers() -> Iterator[tuple[int, int | None, int]]:
    """(address, word to write or None, sel) that are never carried out."""
    for area, size in ((1, 256), (2, 256), (3, DATA_WORDS), (4, DATA_WORDS), (5, CODE_WORDS)):
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
    yield HostRegister.CONTROL.value << 3, 1 << COMMANDS.size, 15
    yield HostRegister.CONTROL.value << 3, RUN, 7
    yield HostRegister.MODES.value << 3, 7, 1


def test_what_is_nowhere_is_refused() -> None:
    async def script(bus: Bus) -> None:
        await bus.load(program(Q32))
        # STREAM would move POINTER, which stands outside of the memories.
        slots = [slot for slot in HostRegister if slot is not HostRegister.STREAM]
        before = [await bus.get(slot) for slot in slots]
        for address, word, sel in bad_transfers():
            with pytest.raises(Refused):
                await bus.transfer(address, word, sel)
        assert [await bus.get(slot) for slot in slots] == before
        assert await bus.read(Area.REGISTERS, 0) == 0

    on_bus(Q32, script)


def test_a_running_core_is_left_alone() -> None:
    # Whatever is asked of it in the middle of a program, it ends as if nothing had been asked.
    p, m = program(Q32), rg.Machine(program(Q32), memory=DATA_WORDS)
    m.run()

    async def script(bus: Bus) -> None:
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
        with pytest.raises(Refused):
            await bus.read(Area.CODE, 0)
        assert (await bus.get(HostRegister.STATUS)) & 1
        await bus.finished()
        assert await bus.get(HostRegister.PC) == m.pc
        assert await bus.get(HostRegister.CYCLES) == m.cycles
        assert [await bus.read(Area.REGISTERS, r) for r in range(6)] == list(m.registers[:6])

    on_bus(Q32, script)


def test_stop_ends_with_an_instruction() -> None:
    p = program(Q32)

    async def script(bus: Bus) -> None:
        await bus.load(p)
        await bus.set(HostRegister.CONTROL, STOP)
        await bus.set(HostRegister.CONTROL, RUN)
        await bus.set(HostRegister.CONTROL, STOP)
        found = status(await bus.finished())
        assert not found["halted"]
        retired = await bus.get(HostRegister.RETIRED)
        assert 0 < retired < 10
        m = rg.Machine(p, memory=DATA_WORDS)
        m.run(retired)
        assert await bus.get(HostRegister.PC) == m.pc
        await bus.set(HostRegister.CONTROL, RUN)
        assert status(await bus.finished())["halted"]

    on_bus(Q32, script)


@pytest.mark.share(0)
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_reset_at_any_cycle(every: int) -> None:
    """Of the first instructions, and some later ones; in the long tier of the whole program, and after its end."""
    p, m = program(Q32), rg.Machine(program(Q32), memory=DATA_WORDS)
    m.run()
    rng = random.Random(1)
    delays = range(1, m.cycles + 20) if every == 1 else [*range(1, 60, every), *(rng.randrange(200) for _ in range(5))]

    async def script(bus: Bus) -> None:
        ctx, reset = bus.ctx, bench(Q32).reset
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
        assert status(await bus.finished())["halted"]
        assert [await bus.read(Area.REGISTERS, r) for r in range(6)] == list(m.registers[:6])
        assert await bus.get(HostRegister.CYCLES) == m.cycles

    bench(Q32).run(script)


def test_a_transfer_given_up_leaves_the_bus_free() -> None:
    async def script(bus: Bus) -> None:
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

    on_bus(Q32, script)


# ---------------------------------------------------------------- halves and limits


def test_a_half_belongs_to_its_slot() -> None:
    word = 0x1234_5678_9ABC_DEF0

    async def script(bus: Bus) -> None:
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
        await bus.refuses(Area.DATA, DATA_WORDS, 1)
        await bus.transfer(code[2], 6)
        assert await bus.read(Area.CODE, 2) == 5 << 32 | 6
        # The same register of another area is another slot, and so is the high half of a word that was not read.
        await bus.transfer(Area.REGISTERS.value << 28 | 4, 1)
        await bus.transfer(code[0], 3)
        assert await bus.read(Area.CODE, 0) == 3
        await bus.transfer(code[1])
        for other in (code[2] + 4, 4, Area.DATA.value << 28 | 1 << 3 | 4):
            with pytest.raises(Refused):
                await bus.transfer(other)
        assert await bus.transfer(code[1] + 4) == word >> 32

    on_bus(Q32, script)


def test_steps_have_64_bits() -> None:
    p = program(Q32)

    async def script(bus: Bus) -> None:
        assert await bus.get(HostRegister.STEPS) == UNLIMITED
        await bus.load(p)
        await bus.set(HostRegister.STEPS, 0)
        await bus.set(HostRegister.CONTROL, RUN)
        assert status(await bus.finished()) == status(0)
        assert (await bus.get(HostRegister.PC), await bus.get(HostRegister.RETIRED)) == (p.start, 0)
        await bus.set(HostRegister.CONTROL, STEP)
        await bus.finished()
        assert await bus.get(HostRegister.RETIRED) == 1
        await bus.set(HostRegister.STEPS, (1 << 32) + 1)
        assert await bus.get(HostRegister.STEPS) == (1 << 32) + 1
        await bus.set(HostRegister.CONTROL, RUN)
        assert status(await bus.finished())["halted"]

    on_bus(Q32, script)


# ---------------------------------------------------------------- zeroes, the pointer, the interrupt


@pytest.mark.parametrize("registers", [0, 3, 256])
def test_words_are_set_to_zero_up_to_the_sizes(registers: int) -> None:
    areas = (Area.REGISTERS, Area.DATA, Area.REGISTER_COTANGENTS, Area.DATA_COTANGENTS)

    async def script(bus: Bus) -> None:
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
                found = status(await bus.get(HostRegister.STATUS))
                assert (found["busy"], found["zeroing"]) == (1, 1)
                await bus.refuses(Area.CONTROL, HostRegister.CONTROL.value, RUN)
                with pytest.raises(Refused):
                    await bus.transfer(Area.DATA.address(0))
            await bus.finished()
            for area in areas:
                size = 5 if area in (Area.DATA, Area.DATA_COTANGENTS) else registers
                expected = [0 if area in cleared and at < size else 100 + at for at in range(8)]
                assert [await bus.read(area, at) for at in range(8)] == expected

    on_bus(Q32, script)


def test_a_stream_of_words() -> None:
    words = [0x1234_5678_9ABC_DEF0, 7, 0xFFFF_FFFF_0000_0001]

    async def script(bus: Bus) -> None:
        await bus.set(HostRegister.POINTER, Area.CODE.address(3) | 5)
        for word in words:
            await bus.set(HostRegister.STREAM, word)
        assert [await bus.read(Area.CODE, at) for at in (3, 4, 5)] == words
        assert await bus.get(HostRegister.POINTER) == Area.CODE.address(6)
        await bus.set(HostRegister.POINTER, Area.CODE.address(3))
        assert [await bus.get(HostRegister.STREAM) for _ in words] == words
        # Beyond the area all is refused, and the pointer stays.
        await bus.set(HostRegister.POINTER, Area.CODE.address(CODE_WORDS - 1))
        await bus.set(HostRegister.STREAM, 5)
        with pytest.raises(Refused):
            await bus.transfer(HostRegister.STREAM.address)
        await bus.refuses(Area.CONTROL, HostRegister.STREAM.value, 5)
        assert await bus.get(HostRegister.POINTER) == Area.CODE.address(CODE_WORDS)

    on_bus(Q32, script)


def test_a_block_of_transfers() -> None:
    """`cyc` and `stb` stay high: a write takes two cycles and a read of a memory three, through STREAM and to addresses."""
    words = [random.Random(1).getrandbits(32) for _ in range(6)]

    async def script(bus: Bus) -> None:
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

    on_bus(Q32, script)


def test_the_interrupt() -> None:
    halted, trapped, stopped, zeroed = (field.mask for field in HostRegister.INTERRUPT_PENDING.fields)

    async def script(bus: Bus) -> None:
        line = used.made.interrupt

        async def event(command: int, steps: int, expected: int) -> None:
            """The command raises the line once it is done, and the line falls when the event is cleared."""
            await bus.set(HostRegister.STEPS, steps)
            await bus.set(HostRegister.CONTROL, command)
            await bus.finished()
            assert await bus.get(HostRegister.INTERRUPT_PENDING) == expected
            assert status(await bus.get(HostRegister.STATUS))["interrupt"] == bus.ctx.get(line) == 1
            await bus.set(HostRegister.INTERRUPT_CLEAR, 15 & ~expected)
            assert bus.ctx.get(line)
            await bus.set(HostRegister.INTERRUPT_CLEAR, expected)
            assert not bus.ctx.get(line)
            assert await bus.get(HostRegister.INTERRUPT_PENDING) == 0

        await bus.load(program(Q32))
        await bus.set(HostRegister.INTERRUPT_ENABLE, 15)
        assert not bus.ctx.get(line)
        await event(RUN, 0, stopped)
        await event(RUN, 3, stopped)
        await event(STEP, 3, stopped)
        await event(RUN, UNLIMITED, halted)
        await event(ZERO_COTANGENTS, 0, zeroed)
        await bus.set(HostRegister.PC, CODE_WORDS)
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

    used = bench(Q32)
    used.run(script)


# ---------------------------------------------------------------- a random host


def random_host(bus_model: Any, w: Format, seed: int, transfers: int) -> Counter[str]:
    """Random transfers against the model. How often runs ended in each way, and transfers were refused."""
    p, rng, seen = parameters(w), random.Random(seed), Counter[str]()
    model, host = bus_model.Model(p), bus_model.Random(rng, p)
    sent = 0

    async def script(bus: Bus) -> None:
        nonlocal sent
        ctx, made = bus.ctx, used.made

        def busy() -> bool:
            return bool(ctx.get(made.busy))

        async def settle() -> None:
            """Let the run end, and words become zero; a run that may not end is stopped."""
            if model.limit is not None and model.limit > 100 and busy():
                await do(bus_model.Transfer(HostRegister.CONTROL.value << 3, STOP))
            for _ in range(1000):
                if not busy():
                    break
                await ctx.tick().repeat(20)
            else:
                raise AssertionError("the core does not end")
            if model.limit is not None:
                # These reads keep their high halves, in the model too.
                retired = await bus.get(HostRegister.RETIRED)
                model.kept = {HostRegister.RETIRED.value: retired >> 32}
                seen[model.ended(await status_now(), retired)] += 1

        async def status_now() -> int:
            found = await bus.transfer(HostRegister.STATUS.value << 3)
            model.kept = {HostRegister.STATUS.value: 0}
            return found

        async def do(transfer: Any) -> bool:
            """Whether it was carried out, or lost."""
            if transfer.lost:
                return True
            now = busy()
            if not now:
                await settle()
            expected = model.transfer(transfer.address, transfer.word, transfer.sel, now, transfer.cut)
            what = f"{transfer} number {sent}, seed {seed}"
            if transfer.cut:
                await bus.give_up(transfer.address, transfer.word, transfer.sel)
                return expected is not None
            try:
                found = await bus.transfer(transfer.address, transfer.word, transfer.sel)
            except Refused:
                assert expected is None, what
                seen["refused"] += 1
                return False
            assert expected is not None, what
            if transfer.word is None and expected >= 0:
                assert found == expected, (what, hex(found), hex(expected))
            return True

        # Words that an earlier script has left.
        await bus.set(HostRegister.CONTROL, ZERO_WORDS | ZERO_COTANGENTS)
        await bus.finished()
        model.interrupt_pending, model.kept = 8, {HostRegister.STATUS.value: 0}
        for transfer in host.load():
            await do(transfer)
        for _ in range(transfers):
            # Of a run that goes on some transfers are refused; then it ends.
            if rng.random() < (0.3 if model.limit is not None else 0.8):
                await settle()
            for transfer in host.any():
                sent += 1
                # After a refused half the other is not sent: half an instruction is illegal.
                if not await do(transfer) and transfer.word is not None:
                    break
        await settle()
        for area, size in ((Area.REGISTERS, 8), (Area.DATA, DATA_WORDS), (Area.DATA_COTANGENTS, DATA_WORDS)):
            for at in range(size):
                await do(bus_model.Transfer(bus_model.address(area, at)))

    # One whose script failed is not used again.
    used = _BENCHES.pop(w, None) or Bench(w)
    used.run(script)
    _BENCHES[w] = used
    return seen


@pytest.mark.share(0)
@pytest.mark.parametrize(("w", "seed", "transfers"), [
    (Q32, 1, 200), *(pytest.param(w, seed, 2000, marks=pytest.mark.slow) for w in (Q32, Q64) for seed in range(2, 6)),
])  # fmt: skip
def test_a_random_host(bus_model: Any, w: Format, seed: int, transfers: int) -> None:
    seen = random_host(bus_model, w, seed, transfers)
    assert min(seen[how] for how in ("refused", "limit", "halted", "trapped")) > 0, seen


#: what stands in host.py, and what is planted there
FAULTS = [
    ("waiting.valid & (waiting.slot == here)", "waiting.valid"),
    ("kept.valid & (kept.slot == here)", "kept.valid"),
    ("waiting.valid.eq(0)", "waiting.valid.eq(waiting.valid)"),
    ("running.eq(Mux(commands.step | (steps != 0), commanded, 0))", "running.eq(1)"),
    ("place.eq(Mux(self._inside, place + 1, 0))", "place.eq(Mux(self._inside, place + 2, 0))"),
    ("pointer.index.eq(pointer.index + 1)", "pointer.index.eq(pointer.index)"),
    ("pending.as_value() & ~cleared.as_value()", "pending.as_value()"),
    ("~busy & (bus.sel.all() | ~bus.we)", "(bus.sel.all() | ~bus.we)"),
    ("allowed.eq(bus.sel.all() & (~busy | free) & ~fixed)", "allowed.eq(bus.sel.all() & ~fixed)"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), FAULTS)
def test_a_random_host_finds_planted_faults(
    bus_model: Any, planted: Callable[[str, str, str], type], old: str, new: str
) -> None:
    planted("bus.host_interface", old, new)
    w = Format(16, 8)
    _BENCHES.pop(w, None)
    with pytest.raises(AssertionError):
        random_host(bus_model, w, 2, 2000)


# ---------------------------------------------------------------- the serial line

_BIT = 4


def on_line(script: Callable[[Any, Any], Awaitable[None]]) -> None:
    made = SerialCoprocessor(parameters(Q32), _BIT)

    async def bench(ctx: Any) -> None:
        await script(ctx, made)

    simulator = Simulator(made)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


async def send(ctx: Any, made: Any, data: bytes) -> None:
    for byte in data:
        for bit in (0, *(byte >> i & 1 for i in range(8)), 1):
            ctx.set(made.rx, bit)
            await ctx.tick().repeat(_BIT)


async def receive(ctx: Any, made: Any, n: int) -> bytes:
    out = bytearray()
    for _ in range(n):
        for _ in range(60 * _BIT):
            if not ctx.get(made.tx):
                break
            await ctx.tick()
        else:
            raise AssertionError(f"no answer after {bytes(out)!r}")
        await ctx.tick().repeat(_BIT + _BIT // 2)
        byte = 0
        for i in range(8):
            byte |= ctx.get(made.tx) << i
            await ctx.tick().repeat(_BIT)
        assert ctx.get(made.tx) == 1
        out.append(byte)
    return bytes(out)


def word(value: int) -> bytes:
    return value.to_bytes(4, "little")


@pytest.mark.share(0)
def test_the_serial_line() -> None:
    async def script(ctx: Any, made: Any) -> None:
        async def ask(command: bytes, n: int) -> bytes:
            await send(ctx, made, command)
            return await receive(ctx, made, n)

        assert await ask(b"R" + word(0), 5) == b"K" + word(MAGIC << 16 | 32 << 8 | 16)
        at = Area.REGISTERS.value << 28 | 9 << 3
        assert await ask(b"W" + word(at) + word(0x12345678), 1) == b"K"
        assert await ask(b"R" + word(at), 5) == b"K" + word(0x12345678)
        # Abuse: no such command, no such place, between words, half a command and then nothing for a while.
        assert await ask(b"x", 1) == b"?"
        assert await ask(b"R" + word(0xF0000000), 1) == b"E"
        assert await ask(b"R" + word(at + 2), 1) == b"E"
        await send(ctx, made, b"W" + word(at)[:2])
        await ctx.tick().repeat((PAUSE + 2) * 10 * _BIT)
        assert await ask(b"R" + word(at), 5) == b"K" + word(0x12345678)
        # Bursts: up, and down from the last; the second word of the third is refused, and so is one of each of the others.
        words = [0xA0B0C0D0, 0x11111111, 0xFFFFFFFF]
        both = b"".join(map(word, words))
        assert await ask(b"w" + word(at) + b"\3\0\x08" + both, 1) == b"K"
        assert await ask(b"r" + word(at) + b"\3\0\x08", 15) == b"".join(b"K" + word(w) for w in words)
        assert await ask(b"r" + word(at + 16) + b"\2\0\xf8", 10) == b"".join(b"K" + word(w) for w in words[:0:-1])
        last = Area.REGISTERS.address(255)
        assert await ask(b"w" + word(last) + b"\3\0\x08" + both, 1) == b"E"
        assert await ask(b"r" + word(last) + b"\3\0\x08", 6) == b"K" + word(words[0]) + b"E"
        assert await ask(b"w" + word(last + 8) + b"\2\0\xf8" + both[:8], 1) == b"E"
        assert await ask(b"R" + word(last), 5) == b"K" + word(words[1])
        await send(ctx, made, b"w" + word(at) + b"\2\0\x08" + word(5))
        await ctx.tick().repeat((PAUSE + 2) * 10 * _BIT)
        assert await ask(b"r" + word(at) + b"\2\0\x08", 10) == b"K" + word(5) + b"K" + word(words[1])

    on_line(script)
