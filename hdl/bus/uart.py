"""A serial line: 8 bits, no parity, one stop bit."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out


class Receiver(wiring.Component):
    """A receiver. A byte without its stop bit is discarded. Raises ValueError for fewer than 4 cycles a bit."""

    def __init__(self, cycles_per_bit: int) -> None:
        _check(cycles_per_bit)
        self.cycles_per_bit = cycles_per_bit
        super().__init__(
            {
                #: the line
                "rx": In(1, init=1),
                #: a byte that was received, valid for one cycle
                "valid": Out(1),
                "byte": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.rx, line, init=1)
        time, bits, shift = Signal(range(2 * self.cycles_per_bit)), Signal(4), Signal(9)
        m.d.sync += self.valid.eq(0)
        with m.If(bits == 0):
            # Bits are sampled in their middle: the first after half a bit, the others one bit apart.
            m.d.sync += time.eq(self.cycles_per_bit + self.cycles_per_bit // 2 - 2)
            with m.If(~line):
                m.d.sync += bits.eq(9)
        with m.Elif(time != 0):
            m.d.sync += time.eq(time - 1)
        with m.Else():
            m.d.sync += [time.eq(self.cycles_per_bit - 1), bits.eq(bits - 1), shift.eq(Cat(shift[1:], line))]
            with m.If(bits == 1):
                m.d.sync += [self.valid.eq(line), self.byte.eq(shift[1:])]
        return m


class Transmitter(wiring.Component):
    """A transmitter. Raises ValueError for fewer than 4 cycles a bit."""

    def __init__(self, cycles_per_bit: int) -> None:
        _check(cycles_per_bit)
        self.cycles_per_bit = cycles_per_bit
        super().__init__(
            {
                #: the line
                "tx": Out(1, init=1),
                #: a byte to send, and whether it is accepted
                "valid": In(1),
                "byte": In(8),
                "ready": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        time, bits, shift = Signal(range(self.cycles_per_bit)), Signal(4), Signal(10, init=0x3FF)
        m.d.comb += [self.tx.eq(shift[0]), self.ready.eq(bits == 0)]
        with m.If(self.ready), m.If(self.valid):
            m.d.sync += [shift.eq(Cat(0, self.byte, 1)), bits.eq(10), time.eq(self.cycles_per_bit - 1)]
        with m.Elif(time != 0):
            m.d.sync += time.eq(time - 1)
        with m.Else():
            m.d.sync += [shift.eq(Cat(shift[1:], 1)), bits.eq(bits - 1), time.eq(self.cycles_per_bit - 1)]
        return m


def _check(cycles_per_bit: int) -> None:
    if cycles_per_bit < 4:
        raise ValueError(f"a bit lasts at least 4 cycles, not {cycles_per_bit}")
