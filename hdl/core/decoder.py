"""The decoder: fields of an instruction, its constant with either sign, and whether it is one at all."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.microcode.contents import DISPATCH

#: `isa.encoding`: op:8 rd:8 ra:8 rb:8 imm:32
FIELDS = data.StructLayout({"imm": signed(32), "rb": 8, "ra": 8, "rd": 8, "op": 8})


class Decoder(wiring.Component):
    """Legality is looked at a cycle after the fields, when the dispatch memory has told of the opcode."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(
            {
                #: the instruction, from the phase of decoding on
                "instruction": In(FIELDS),
                #: DIR = −1, and D
                "backward": In(1),
                "lifted": In(1),
                #: this is the phase of decoding
                "decode": In(1),
                #: where the dispatch memory tells of it
                "opcode": Out(11),
                #: what it tells, in the next cycle
                "head": In(DISPATCH),
                #: the fields and the constant mean something
                "legal": Out(1),
                #: the constant as the executed instruction has it, and with the opposite sign; in the next cycle
                "imm": Out(unsigned(width)),
                "negated": Out(unsigned(width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        i = self.instruction
        pairs = Cat(i.rd == i.ra, i.rd == i.rb, i.ra == i.rb)
        m.d.comb += self.opcode.eq(Cat(i.op, self.backward, self.lifted, pairs[2]))

        # Only the opcode's entry tells whether its constant is negated, and is not known yet: that both are kept costs a choice.
        plain, opposite = Signal(self.width), Signal(self.width)
        fits, same, used, least = Signal(), Signal(3), Signal(4), Signal()
        low = min(self.width, 32) - 1
        with m.If(self.decode):
            m.d.sync += [
                plain.eq(i.imm),
                opposite.eq(-i.imm),
                same.eq(pairs),
                used.eq(Cat(i.rd.any(), i.ra.any(), i.rb.any(), i.imm.any())),
                # Shorter words must hold it; and where its inverse negates it, the least number has none.
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
