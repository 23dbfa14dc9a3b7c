"""The memory port: data words and their cotangents side by side, one read and one write of each in a cycle."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2


def _passing(width: int, depth: int) -> dict[str, Any]:
    """Ports for a write of the core alone. A read gets the word past the memory, and not past the choice between core and host."""
    return {
        "passing_target": In(ceil_log2(depth)),
        "passing_word": In(width),
        "passing_cotangent": In(width),
        "passes_word": In(1),
        "passes_cotangent": In(1),
    }


class MemoryPort(wiring.Component):
    """Cycle 1: the address base + offset mod 2^W. Cycle 2: the word there, held until the next read.

    With `ahead`, words of earlier instructions are written while a word is read. The word is then that of cycle 2, also where it is written
    in cycle 1 or 2. In later cycles it is undefined.

    An address of `size` or more is invalid, even where the memory is larger. Raises ValueError for a memory without words.
    """

    def __init__(self, width: int, depth: int, ahead: bool = False) -> None:
        """`ahead`: an instruction reads its word while others write theirs."""
        if depth < 1:
            raise ValueError(f"memory of {depth} words")
        self.width = width
        self.depth = depth
        self.ahead = ahead
        self.words = MemoryData(shape=width, depth=depth, init=[])
        self.cotangents = MemoryData(shape=width, depth=depth, init=[])
        super().__init__(
            {
                #: words that the program has
                "size": In(range(depth + 1)),
                #: read the word at base + offset
                "read": In(1),
                "base": In(width),
                "offset": In(width),
                #: the address that was read, and whether it is valid
                "address": Out(width),
                "valid": Out(1),
                #: the word and the cotangent at the address; and as they stand in the memory, for the host
                "old_word": Out(width),
                "old_cotangent": Out(width),
                "stored_word": Out(width),
                "stored_cotangent": Out(width),
                #: write at the address `target`
                "target": In(width),
                "word": In(width),
                "cotangent": In(width),
                "write_word": In(1),
                "write_cotangent": In(1),
                #: the core's write among these, also where a trap prevents it
                **(_passing(width, depth) if ahead else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        address = Signal(self.width)
        m.d.comb += [address.eq(self.base + self.offset), self.valid.eq(self.address < self.size)]
        with m.If(self.read):
            m.d.sync += self.address.eq(address)
        for what, data in (("word", self.words), ("cotangent", self.cotangents)):
            m.submodules[f"{what}s"] = memory = Memory(data)
            read, write = memory.read_port(), memory.write_port()
            word, writes = getattr(self, what), getattr(self, f"write_{what}")
            m.d.comb += [
                read.addr.eq(address),
                read.en.eq(self.read),
                write.addr.eq(self.target),
                write.data.eq(word),
                write.en.eq(writes),
            ]
            found = read.data
            m.d.comb += getattr(self, f"stored_{what}").eq(found)
            if self.ahead:
                # Words written in the cycle of the read, and in the next. Comparing them then is later, and not on the way of the address.
                passing, passes = getattr(self, f"passing_{what}"), getattr(self, f"passes_{what}")
                written, target, wrote = Signal.like(word, name=f"written_{what}"), Signal.like(write.addr), Signal()
                m.d.sync += [written.eq(passing), target.eq(self.passing_target), wrote.eq(passes)]
                place = self.address[: len(write.addr)]
                found = Mux(wrote & (target == place), written, found)
                found = Mux(passes & (self.passing_target == place), passing, found)
            m.d.comb += getattr(self, f"old_{what}").eq(found)
        return m
