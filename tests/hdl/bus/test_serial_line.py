"""The bus behind a serial line: transfers, bursts, and bytes that make no command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from amaranth.sim import Simulator
from retrograd.hdl.bus.register_map import MAGIC, Area
from retrograd.hdl.bus.serial_line import PAUSE
from retrograd.hdl.bus.top import SerialCoprocessor
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

_BIT = 4


def on_line(script: Callable[[Any, Any], Awaitable[None]]) -> None:
    made = SerialCoprocessor(Parameters(Format(32, 16), 32, 16), _BIT)

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


@pytest.mark.long
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
