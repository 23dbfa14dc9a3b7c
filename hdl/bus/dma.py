"""Direct memory access: words of a memory of the host's are copied to the co-processor's memories, or back, without the host.

    copy in     M[address + 4·i]  →  the word at POINTER, which goes on to the next word
    copy out    the word at POINTER, which goes on  →  M[address + 4·i]

A word of up to 32 bits is one word of the memory; a longer word, and an instruction, is two, the low half first. The unit is a master of Wishbone with
incrementing bursts, at one word of the memory in a clock. A burst ends where the address is a multiple of 64 bytes, so another master waits for 16 words
at most. Memories that know no bursts see single transfers. Source: Wishbone B4, chapter 4, registered feedback bus cycles.
"""

from __future__ import annotations

from enum import Enum

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.bus.wishbone import Wishbone
from retrograd.hdl.parameters import REGISTERS, Parameters

#: words of the host's memory in a burst
BURST = 16


class CycleType(Enum):
    """CTI: the kind of a transfer of a burst."""

    CLASSIC = 0
    INCREMENTING = 2
    END = 7


class DirectMemoryAccess(wiring.Component):
    """Copies `length` words. The host does not change the place and the kind of the words meanwhile.

    A command to stop is obeyed at the end of a word, since a master keeps to a burst that it has announced. A word that the memory refuses ends
    the copy at once. `length` is then the number of words that have not been copied, and `address` that of the first of them.
    """

    def __init__(self, parameters: Parameters) -> None:
        #: the low half of a word has been copied, and its high half has not
        self.high = Signal()
        # A bit more than the number of words of the largest area.
        length = max(REGISTERS, parameters.code_words, parameters.data_words).bit_length() + 1
        super().__init__(
            {
                #: the host's memory
                "memory": Out(Wishbone(bursts=True)),
                # the host's slots: address in words of four bytes, and words to copy
                "value": In(64),
                "set_address": In(1),
                "set_length": In(1),
                "address": Out(30),
                "length": Out(length),
                #: begin, in this direction; stop
                "begin": In(1),
                "out": In(1),
                "stop": In(1),
                #: the words have two halves
                "wide": In(1),
                "busy": Out(1),
                #: in the last cycle of a copy: it is done, or was stopped; or the memory has refused a word
                "done": Out(1),
                "fails": Out(1),
                #: the memory has refused a word of the last copy
                "failed": Out(1),
                # the co-processor's memories: write this word, or read a word, which is there from the next cycle to the next read
                "write": Out(1),
                "written": Out(64),
                "read": Out(1),
                "found": In(64),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        memory, address, length = self.memory, self.address, self.length
        outwards, high, stops, ending = Signal(), self.high, Signal(), Signal()
        # A word from the memory is whole in the cycle after its last half.
        word, whole = Signal(64), Signal()
        ends_word, last = Signal(), Signal()
        # Signals of a transfer depend on registers that change with its answer only: they are held until then.
        m.d.comb += [
            ends_word.eq(high | ~self.wide),
            last.eq((address[: (BURST - 1).bit_length()] == BURST - 1) | (ends_word & ((length == 1) | ending))),
            memory.stb.eq(memory.cyc),
            memory.we.eq(outwards),
            memory.adr.eq(address),
            memory.sel.eq(0b1111),
            memory.dat_w.eq(Mux(high, self.found[32:], self.found[:32])),
            memory.cti.eq(Mux(last, CycleType.END, CycleType.INCREMENTING)),
            self.written.eq(Cat(Mux(self.wide, word[:32], word[32:]), word[32:])),
            self.write.eq(whole),
        ]
        m.d.sync += whole.eq(0)
        with m.If(self.set_address):
            m.d.sync += address.eq(self.value[2:32])
        with m.If(self.set_length):
            # Too large a number is more than an area has.
            most = (1 << len(length)) - 1
            m.d.sync += length.eq(Mux(self.value > most, most, self.value))
        with m.If(self.stop):
            m.d.sync += stops.eq(1)
        with m.If(memory.cyc):
            with m.If(memory.err):
                m.d.comb += self.fails.eq(1)
                m.d.sync += [memory.cyc.eq(0), self.busy.eq(0), self.failed.eq(1)]
            with m.Elif(memory.ack):
                m.d.comb += self.read.eq(outwards & ends_word & ~last)
                m.d.sync += [
                    memory.cyc.eq(~last), ending.eq(stops), address.eq(address + 1), high.eq(~ends_word),
                    word.eq(Cat(word[32:], memory.dat_r)), whole.eq(ends_word & ~outwards),
                ]  # fmt: skip
                with m.If(ends_word):
                    m.d.sync += length.eq(length - 1)
        with m.Elif(self.busy):
            # Before a burst. The last word from the memory is written in this cycle.
            with m.If(~high & (stops | (length == 0))):
                m.d.comb += self.done.eq(1)
                m.d.sync += self.busy.eq(0)
            with m.Else():
                m.d.comb += self.read.eq(outwards & ~high)
                m.d.sync += [memory.cyc.eq(1), ending.eq(stops)]
        with m.Elif(self.begin):
            m.d.sync += [self.busy.eq(1), outwards.eq(self.out), high.eq(0), stops.eq(self.stop), self.failed.eq(0)]
        return m
