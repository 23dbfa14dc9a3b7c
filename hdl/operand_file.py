"""The operand file: temporaries and constants, and the three operands of a microword."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.microword import FILE_BITS, SOURCE, TEMPORARIES, Kind, Latch

PORTS = ("x", "y", "z")


class OperandFile(wiring.Component):
    """Sources named in one cycle are words in the next: from a latch, from the file, or the result of this cycle.

    Raises ValueError for more constants than there is room for.
    """

    def __init__(self, width: int, constants: Sequence[int]) -> None:
        if len(constants) > (1 << FILE_BITS) - TEMPORARIES:
            raise ValueError(f"{len(constants)} constants do not fit")
        self.width = width
        self.words = MemoryData(shape=width, depth=1 << FILE_BITS, init=[*[0] * TEMPORARIES, *constants])
        super().__init__(
            {
                #: what the next microword reads
                **{f"{port}_source": In(SOURCE) for port in PORTS},
                #: the operands that this one reads
                **{port: Out(width) for port in PORTS},
                #: the latches, by number
                "latches": In(width).array(len(Latch)),
                #: this cycle's result, and the temporary that it is written to
                "result": In(width),
                "temporary": In(range(TEMPORARIES)),
                "write": In(1),
                #: the result of the cycle before
                "last": Out(width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = memory = Memory(self.words)
        write = memory.write_port()
        m.d.comb += [write.addr.eq(self.temporary), write.data.eq(self.result), write.en.eq(self.write)]
        m.d.sync += self.last.eq(self.result)
        latches = Array(self.latches[i] for i in range(len(Latch)))
        for name in PORTS:
            source, word = getattr(self, f"{name}_source"), getattr(self, name)
            port = memory.read_port()
            m.d.comb += port.addr.eq(source.index)
            kind, latched = Signal(Kind, name=f"{name}_kind"), Signal(self.width, name=f"{name}_latched")
            m.d.sync += [kind.eq(source.kind), latched.eq(latches[source.index[:4]])]
            with m.Switch(kind):
                with m.Case(Kind.LATCH):
                    m.d.comb += word.eq(latched)
                with m.Case(Kind.FILE):
                    m.d.comb += word.eq(port.data)
                with m.Case(Kind.LAST):
                    m.d.comb += word.eq(self.last)
        return m
