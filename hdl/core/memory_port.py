"""The memory port: data words and their cotangents side by side, one read and one write of each in a cycle."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out


class MemoryPort(wiring.Component):
    """Cycle 1: the address base + offset mod 2^W. Cycle 2: the word there, held until the next read.

    An address of `size` or more is invalid, even where the memory is larger. Raises ValueError for a memory without words.
    """

    def __init__(self, width: int, depth: int, transparent: bool = False) -> None:
        """`transparent`: a read gets the word that is written in the same cycle."""
        if depth < 1:
            raise ValueError(f"memory of {depth} words")
        self.width = width
        self.depth = depth
        self.transparent = transparent
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
                #: the word and the cotangent at that address
                "old_word": Out(width),
                "old_cotangent": Out(width),
                #: write at the address `target`
                "target": In(width),
                "word": In(width),
                "cotangent": In(width),
                "write_word": In(1),
                "write_cotangent": In(1),
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
            if self.transparent:
                write = memory.write_port()
                read = memory.read_port(transparent_for=[write])
            else:
                read, write = memory.read_port(), memory.write_port()
            m.d.comb += [
                read.addr.eq(address),
                read.en.eq(self.read),
                getattr(self, f"old_{what}").eq(read.data),
                write.addr.eq(self.target),
                write.data.eq(getattr(self, what)),
                write.en.eq(getattr(self, f"write_{what}")),
            ]
        return m
