"""The performance counters: cycles, instructions, bits toggled, bits erased."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.parameters import COUNTER


class Counters(wiring.Component):
    """A trap's cycles are not counted. Toggled bits are counted three cycles late, which no host can see."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(
            {
                #: the first cycle of an instruction, and the last of one that retires
                "first": In(1),
                "last": In(1),
                #: words, exclusive-or'ed with what is written over them, or zero; and whether that is written at all
                "changes": In(width).array(4),
                "writes": In(1),
                #: words erased and cotangents dropped by what is written now
                "erases": In(range(3)),
                #: all to zero
                "clear": In(1),
                #: of the instructions retired
                "cycles": Out(COUNTER),
                "retired": Out(COUNTER),
                #: bits that changed in registers and memory, cotangents included
                "toggled": Out(COUNTER),
                #: bits erased: those of words, and of dropped cotangents
                "erased": Out(COUNTER),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        elapsed = Signal(16)
        m.d.sync += elapsed.eq(elapsed + 1)
        with m.If(self.first):
            m.d.sync += elapsed.eq(2)
        with m.If(self.last):
            m.d.sync += [self.cycles.eq(self.cycles + elapsed), self.retired.eq(self.retired + 1)]

        # Ones are counted in three steps: what changed, eight bits at a time, all.
        changed, writes = [Signal(self.width, name=f"changed_{i}") for i in range(4)], Signal(2)
        m.d.sync += [*(word.eq(self.changes[i]) for i, word in enumerate(changed)), writes.eq(Cat(self.writes, writes))]
        bits = [bit for word in changed for bit in word]
        parts = []
        for at in range(0, len(bits), 8):
            part = Signal(4, name=f"ones_{at}")
            m.d.sync += part.eq(_sum(bits[at : at + 8]))
            parts.append(part)
        ones = Signal(range(len(bits) + 1))
        m.d.sync += [ones.eq(Mux(writes[1], _sum(parts), 0)), self.toggled.eq(self.toggled + ones)]
        m.d.sync += self.erased.eq(self.erased + (self.erases << (self.width.bit_length() - 1)))
        with m.If(self.clear):
            m.d.sync += [self.cycles.eq(0), self.retired.eq(0), self.toggled.eq(0), self.erased.eq(0)]
        return m


def _sum(terms: Sequence[Any]) -> Any:
    """Their sum, as a tree."""
    while len(terms) > 1:
        pairs = [terms[i] + terms[i + 1] for i in range(0, len(terms) - 1, 2)]
        terms = [*pairs, *terms[len(pairs) * 2 :]]
    return terms[0]
