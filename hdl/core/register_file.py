"""The register file: words and their cotangents side by side, three reads and one write of each in a cycle."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.parameters import REGISTERS

PLACES = ("d", "a", "b")


class RegisterFile(wiring.Component):
    """The outputs are the operand latches: they hold the words that were read until the next read, also across writes."""

    def __init__(self, width: int, transparent: bool = False) -> None:
        """`transparent`: a read gets the word that is written in the same cycle; and a cotangent is written to a register of its own.

        The output of a transparent file is undefined in cycles after the next.
        """
        self.width = width
        self.transparent = transparent
        self.words = MemoryData(shape=width, depth=REGISTERS, init=[])
        self.cotangents = MemoryData(shape=width, depth=REGISTERS, init=[])
        super().__init__(
            {
                #: read the registers with these numbers
                "read": In(1),
                **{f"{place}_number": In(range(REGISTERS)) for place in PLACES},
                #: their words and cotangents, from the next cycle on
                **{f"{place}_{what}": Out(width) for place in PLACES for what in ("word", "cotangent")},
                #: the register to write, and which of word and cotangent is written
                "number": In(range(REGISTERS)),
                **({"shadow": In(range(REGISTERS))} if transparent else {}),
                "word": In(width),
                "cotangent": In(width),
                "write_word": In(1),
                "write_cotangent": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        numbers = {place: Signal(range(REGISTERS), name=f"{place}_was") for place in PLACES}
        if self.transparent:
            with m.If(self.read):
                m.d.sync += [number.eq(getattr(self, f"{place}_number")) for place, number in numbers.items()]
        for what, data in (("word", self.words), ("cotangent", self.cotangents)):
            m.submodules[f"{what}s"] = memory = Memory(data)
            write = memory.write_port()
            m.d.comb += [
                write.addr.eq(self.shadow if self.transparent and what == "cotangent" else self.number),
                write.data.eq(getattr(self, what)),
                write.en.eq(getattr(self, f"write_{what}")),
            ]
            if self.transparent:
                written, target, wrote = (
                    Signal.like(write.data, name=f"written_{what}"),
                    Signal.like(write.addr),
                    Signal(),
                )
                m.d.sync += [written.eq(write.data), target.eq(write.addr), wrote.eq(write.en)]
            for place in PLACES:
                port = memory.read_port()
                found = port.data
                if self.transparent:
                    # Comparing the numbers in the next cycle is not on the way of the number.
                    found = Mux(wrote & (target == numbers[place]), written, found)
                m.d.comb += [
                    port.addr.eq(getattr(self, f"{place}_number")),
                    port.en.eq(self.read),
                    getattr(self, f"{place}_{what}").eq(found),
                ]
        return m
