"""The performance counters: cycles, instructions, bits toggled, bits erased."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.parameters import COUNTER


class Counters(wiring.Component):
    """Cycles of a trapping instruction are not counted. Toggled bits are counted three cycles late, with `waits` erased bits one cycle late;
    no host can read them earlier.
    """

    def __init__(self, width: int, waits: bool = False) -> None:
        """`waits`: an instruction takes `waiting` cycles more than those from the first to the last, and in its last cycle `ahead` more."""
        self.width = width
        self.waits = waits
        super().__init__(
            {
                #: the first cycle of an instruction, and the last cycle of an instruction that retires
                "first": In(1),
                "last": In(1),
                **({"waiting": In(3), "ahead": In(signed(2))} if waits else {}),
                #: exclusive or of the old and the new words, or zero; and whether the new words are written
                "changes": In(width).array(4),
                "writes": In(1),
                #: words erased and cotangents discarded by this write
                "erases": In(range(3)),
                #: set all counters to zero
                "clear": In(1),
                #: of the instructions that have retired
                "cycles": Out(COUNTER),
                "retired": Out(COUNTER),
                #: bits toggled in registers and memory, cotangents included
                "toggled": Out(COUNTER),
                #: bits erased: those of words and of discarded cotangents
                "erased": Out(COUNTER),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        elapsed = Signal(16)
        m.d.sync += elapsed.eq(elapsed + 1)
        with m.If(self.first):
            m.d.sync += elapsed.eq(1 + self.waiting if self.waits else 2)
        with m.If(self.last):
            taken = elapsed + self.ahead if self.waits else elapsed
            m.d.sync += [self.cycles.eq(self.cycles + taken), self.retired.eq(self.retired + 1)]

        # Population count in three cycles: toggled bits, sums of eight bits, the total.
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
        erases: Any = self.erases
        if self.waits:
            # Whether a guard fails is known late in the cycle.
            erases = Signal(range(3))
            m.d.sync += erases.eq(self.erases)
        m.d.sync += self.erased.eq(self.erased + (erases << (self.width.bit_length() - 1)))
        with m.If(self.clear):
            m.d.sync += [self.cycles.eq(0), self.retired.eq(0), self.toggled.eq(0), self.erased.eq(0)]
        return m


def _sum(terms: Sequence[Any]) -> Any:
    """The sum of the words, as a balanced tree."""
    while len(terms) > 1:
        pairs = [terms[i] + terms[i + 1] for i in range(0, len(terms) - 1, 2)]
        terms = [*pairs, *terms[len(pairs) * 2 :]]
    return terms[0]
