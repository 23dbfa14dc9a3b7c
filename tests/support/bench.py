"""A master of the bus and a co-processor to try, both simulated; and the programs of these tests.

on_bus(Format(32, 16), script)      the script, against a co-processor that was reset
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator
from retrograd.hdl.bus.register_map import Area, HostRegister
from retrograd.hdl.bus.top import Coprocessor
from retrograd.hdl.core.ports import THREAD_READ
from retrograd.hdl.parameters import Parameters
from retrograd.isa.microarchitecture.micro_operations import BARREL
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
    """A master of the bus, with the register map."""

    def __init__(self, ctx: Any, made: Coprocessor, reset: Signal) -> None:
        self.ctx, self.made, self.bus = ctx, made, made.bus
        #: resets the co-processor, as a host's wire would
        self.reset = reset
        p = made.core.parameters
        #: cycles within which a transfer is answered; the core barrel first writes to each of its threads
        self.patience = THREAD_READ + 1 + p.lanes if p.core == BARREL else 3

    def _begin(self, address: int, word: int | None, sel: int) -> None:
        ctx, bus = self.ctx, self.bus
        ctx.set(bus.adr, address >> 2)
        ctx.set(bus.we, word is not None)
        ctx.set(bus.dat_w, word or 0)
        ctx.set(bus.sel, sel)
        ctx.set(bus.cyc, 1)
        ctx.set(bus.stb, 1)

    async def transfer(self, address: int, word: int | None = None, sel: int = 15) -> int:
        """One transfer. Raises Refused; fails where no answer comes in time."""
        self._begin(address, word, sel)
        ctx, bus = self.ctx, self.bus
        for _ in range(self.patience):
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
        self._begin(address, word, sel)
        ctx, bus = self.ctx, self.bus
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


class Memory:
    """The host's memory, as a slave: it answers after a random time, and checks that the master keeps the rules of the bus.

    It has words at the byte addresses from `first` on, and refuses other words and `refused` ones.
    """

    def __init__(self, words: list[int], first: int = 0, refused: Iterable[int] = (), seed: int | None = None) -> None:
        self.words, self.first, self.refused = words, first, set(refused)
        #: None: it has no pauses
        self._rng = None if seed is None else random.Random(seed)
        #: byte address, and whether it was written, of each transfer that was answered; and the cycles of transfers
        self.seen: list[tuple[int, bool]] = []
        self.cycles = 0

    def has(self, address: int) -> bool:
        """Whether a transfer to the byte address is carried out."""
        return 0 <= address - self.first < 4 * len(self.words) and address not in self.refused

    def _pauses(self) -> int:
        return 0 if self._rng is None else self._rng.choice((0, 0, 0, 1, 2, 5))

    async def serve(self, ctx: Any, bus: Any, reset: Signal) -> None:
        """Answer without end."""
        names = ("cyc", "stb", "we", "adr", "sel", "cti", "bte", "dat_w")
        held: dict[str, int] | None = None
        announced: tuple[int, int] | None = None
        pauses = self._pauses()
        while True:
            now = {name: ctx.get(getattr(bus, name)) for name in names}
            if not now["we"]:
                del now["dat_w"]
            assert held is None or now == held, f"a transfer changed before its answer: {held} to {now}"
            assert announced is None or (now["cyc"], now["stb"], now["adr"], now["we"]) == (1, 1, *announced)
            # Between two transfers a master may keep the bus, as the core barrel does while it reads a word of its own.
            assert now["cyc"] or not now["stb"]
            held = announced = None
            if now["stb"]:
                self.cycles += 1
                assert now["sel"] == 15
                assert now["cti"] in (2, 7)
                assert now["bte"] == 0
                held, pauses = now, pauses - 1
            if held and pauses < 0:
                held, pauses = None, self._pauses()
                at, writes = 4 * now["adr"], bool(now["we"])
                self.seen.append((at, writes))
                if self.has(at):
                    place = (at - self.first) // 4
                    if writes:
                        self.words[place] = now["dat_w"]
                    else:
                        ctx.set(bus.dat_r, self.words[place])
                    announced = (now["adr"] + 1, now["we"]) if now["cti"] == 2 else None
                    ctx.set(bus.ack, 1)
                else:
                    ctx.set(bus.err, 1)
            if ctx.get(reset):
                held = announced = None
            await ctx.tick()
            ctx.set(bus.ack, 0)
            ctx.set(bus.err, 0)
            # The wires between two words have no meaning.
            ctx.set(bus.dat_r, 0xDEADBEEF)


def parameters(w: Format, *, dma: bool = False) -> Parameters:
    return Parameters(w, CODE_WORDS, DATA_WORDS, dma=dma)


class Bench:
    """A co-processor on a bus, simulated: to make one takes seconds, to begin again from its reset nothing."""

    def __init__(self, p: Parameters) -> None:
        self._made, self._reset = Coprocessor(p), Signal()
        self._script: Callable[[Bus], Awaitable[None]] | None = None
        self._simulator = Simulator(ResetInserter(self._reset)(self._made))
        self._simulator.add_clock(1e-6)
        self._simulator.add_testbench(self._run)
        #: the host's memory, if the co-processor has a way to it
        self.memory = Memory([])
        if p.dma:
            self._simulator.add_testbench(self._serve, background=True)

    async def _run(self, ctx: Any) -> None:
        assert self._script is not None
        await self._script(Bus(ctx, self._made, self._reset))

    async def _serve(self, ctx: Any) -> None:
        await self.memory.serve(ctx, self._made.memory, self._reset)

    def run(self, script: Callable[[Bus], Awaitable[None]], memory: Memory | None) -> None:
        self.memory = memory or Memory([])
        if self._script is not None:
            self._simulator.reset()
        self._script = script
        self._simulator.run()


_BENCHES: dict[Parameters, Bench] = {}


def on_bus(
    p: Format | Parameters,
    script: Callable[[Bus], Awaitable[None]],
    *,
    memory: Memory | None = None,
    fresh: bool = False,
) -> None:
    """Run a script against a co-processor that was reset. A co-processor whose script failed is not used again; `fresh`: nor is an earlier co-processor."""
    p = parameters(p) if isinstance(p, Format) else p
    used = _BENCHES.pop(p, None)
    if used is None or fresh:
        used = Bench(p)
    used.run(script, memory)
    _BENCHES[p] = used


def status(word: int) -> dict[str, int]:
    """The fields of the slot STATUS."""
    return {field.name: field.of(word) for field in HostRegister.STATUS.fields}


SQUARE = """
        .data
x:      .word 1.5q
y:      .word 0
        .text
        start
        ld.add  r1, [r0 + x]
        fmul.add r2, r1, r1
        st.add  [r0 + y], r2
        finish
"""


def square_program(w: Format) -> rg.Program:
    """The program M[1] += M[0]² for words of a format, with 1.5 in M[0]: the smallest program with a gradient."""
    return rg.assemble(f".format {w.width}, {w.frac}\n{SQUARE}")
