"""A memory of the host's, which the co-processor reaches by itself.

HostMemory(words, address)      words of 32 bits for the host, and the byte address of the first for the co-processor
serve(ctx, bus, memory)         the same as a slave in Amaranth's simulator
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from dataclasses import dataclass
from typing import Any

from retrograd.hdl.bus.dma import CycleType


@dataclass
class HostMemory:
    """Words that host and co-processor share. Raises ValueError for an address that is no multiple of 4.

    `words` is any sequence of integers from 0 to 2^32 − 1: a list, an array, or a `memoryview` of a buffer that the system has mapped.
    """

    words: MutableSequence[int]
    #: the byte address by which the co-processor reaches the first word
    address: int = 0

    def __post_init__(self) -> None:
        if self.address % 4 or not 0 <= self.address <= (1 << 32) - 4 * len(self.words):
            raise ValueError(
                f"{len(self.words)} words from {self.address:#x} on: the address is a multiple of 4 and has 32 bits"
            )

    def place(self, address: int) -> int | None:
        """The number of the word at a byte address; None if there is none."""
        at = (address - self.address) // 4
        return at if 0 <= at < len(self.words) else None


def block_memory(first: bool) -> int:
    """The pauses of a memory whose answers are registered: a cycle before the first word of a burst."""
    return int(first)


async def serve(ctx: Any, bus: Any, memory: HostMemory, pause: Callable[[bool], int] = block_memory) -> None:
    """Answer the transfers of a master without end. `pause`: cycles before an answer; its argument is whether a burst begins."""
    first = True
    while True:
        if not ctx.get(bus.cyc & bus.stb):
            first = True
            await ctx.tick()
            continue
        for _ in range(pause(first)):
            await ctx.tick()
        place, kind = memory.place(ctx.get(bus.adr) << 2), ctx.get(bus.cti)
        if place is not None and ctx.get(bus.we):
            memory.words[place] = ctx.get(bus.dat_w)
        elif place is not None:
            ctx.set(bus.dat_r, memory.words[place])
        answer = bus.err if place is None else bus.ack
        ctx.set(answer, 1)
        await ctx.tick()
        ctx.set(answer, 0)
        first = kind != CycleType.INCREMENTING.value
