"""The decoder: the fields of an instruction, its constant and the negated constant, and whether the encoding is legal."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.dispatch import DISPATCH_BITS, HEAD

#: `isa.encoding`: op:8 rd:8 ra:8 rb:8 imm:32
FIELDS = data.StructLayout({"imm": signed(32), "rb": 8, "ra": 8, "rd": 8, "op": 8})


class Decoder(wiring.Component):
    """Legality is tested one cycle after the fields, when the dispatch memory has delivered the opcode's entry."""

    def __init__(self, width: int, head: data.StructLayout = HEAD) -> None:
        """`head`: the layout of the head of an entry of the dispatch memory."""
        self.width = width
        super().__init__(
            {
                #: the instruction; stable from the decode phase on
                "instruction": In(FIELDS),
                #: DIR = −1, and D
                "backward": In(1),
                "lifted": In(1),
                #: high in the decode phase
                "decode": In(1),
                #: address of the opcode's entry in the dispatch memory
                "opcode": Out(DISPATCH_BITS),
                #: the entry, in the next cycle
                "head": In(head),
                #: the encoding is legal
                "legal": Out(1),
                #: the constant with the sign of the executed instruction, and with the opposite sign; in the next cycle
                "imm": Out(unsigned(width)),
                "negated": Out(unsigned(width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        i = self.instruction
        pairs = Cat(i.rd == i.ra, i.rd == i.rb, i.ra == i.rb)
        m.d.comb += self.opcode.eq(Cat(i.op, self.backward, self.lifted, pairs[2]))

        # The entry of the opcode decides whether the constant is negated, and arrives one cycle later. Keeping both costs a multiplexer.
        plain, opposite = Signal(self.width), Signal(self.width)
        fits, same, used, least = Signal(), Signal(3), Signal(4), Signal()
        low = min(self.width, 32) - 1
        with m.If(self.decode):
            m.d.sync += [
                plain.eq(i.imm),
                opposite.eq(-i.imm),
                same.eq(pairs),
                used.eq(Cat(i.rd.any(), i.ra.any(), i.rb.any(), i.imm.any())),
                # The constant must fit a shorter word. Where the inverse negates it, the least number is illegal.
                fits.eq((i.imm >> low == 0) | (i.imm >> low == -1)),
                least.eq(i.imm == -(1 << low)),
            ]
        h = self.head
        m.d.comb += [
            self.legal.eq(
                h.legal & ~(used & ~h.used).any() & ~(same & h.distinct).any() & fits & ~(h.negatable & least)
            ),
            self.imm.eq(Mux(h.negates, opposite, plain)),
            self.negated.eq(Mux(h.negates, plain, opposite)),
        ]
        return m
