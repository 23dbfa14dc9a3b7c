"""The ROM unit: entry x mod n of one of the constant tables."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out


class RomUnit(wiring.Component):
    """Two cycles: the address, then the entry. All tables share one memory, each at a multiple of its length.

    Raises ValueError for a table whose length is no power of two.
    """

    def __init__(self, width: int, tables: Sequence[Sequence[int]]) -> None:
        if any(not table or len(table) & (len(table) - 1) for table in tables):
            raise ValueError("a table has a power of two of entries")
        self.width = width
        self.tables = [[entry & ((1 << width) - 1) for entry in table] for table in tables]
        #: first address of each table: the longest tables come first, so each is aligned
        self.bases = [0] * len(tables)
        entries: list[int] = []
        for index in sorted(range(len(tables)), key=lambda i: -len(tables[i])):
            self.bases[index] = len(entries)
            entries += self.tables[index]
        self.entries = MemoryData(shape=width, depth=max(2, len(entries)), init=entries)
        super().__init__(
            {
                #: which table
                "table": In(range(max(2, len(tables)))),
                #: the index
                "x": In(width),
                #: the entry, in the next cycle
                "result": Out(width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.entries = memory = Memory(self.entries)
        port = memory.read_port()
        address = Signal.like(port.addr)
        with m.Switch(self.table):
            for index, (base, table) in enumerate(zip(self.bases, self.tables, strict=True)):
                bits = (len(table) - 1).bit_length()
                with m.Case(index):
                    m.d.comb += address.eq(Cat(self.x[:bits], Const(base >> bits, max(0, len(address) - bits))))
        m.d.comb += [port.addr.eq(address), self.result.eq(port.data)]
        return m
