"""The bus over a serial line, for boards with few pins: each command of the host is one transfer, or a burst of them.

    'W' address data               →  'K' if it was carried out, 'E' if refused
    'R' address                    →  'K' data, or 'E'
    'w' address count step data…   →  'K' if all were carried out, else 'E'
    'r' address count step         →  'K' data for each word, to the end or to the first 'E'

Byte addresses and data have 4 bytes, lowest first. The count has 2 bytes; 0 stands for 65,536. The step is a signed byte, which is
added to the address after each word. Any other command is answered by '?'. An incomplete command is discarded after a pause, so a host
that has lost synchronisation regains it by waiting.
"""

from __future__ import annotations

from enum import Enum

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out
from retrograd.hdl.bus.wishbone import Wishbone

# -----------------------------------------------------------------------------
# Bytes: 8 bits, no parity, one stop bit.


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


# -----------------------------------------------------------------------------
# Commands.

#: longest pause within a command, in bytes' time
PAUSE = 64


class _State(Enum):
    COMMAND = 0
    ADDRESS = 1
    DATA = 2
    TRANSFER = 3
    ANSWER = 4
    BURST = 5


class SerialHost(wiring.Component):
    """A bus master that carries out the commands of the line."""

    def __init__(self, cycles_per_bit: int) -> None:
        self.cycles_per_bit = cycles_per_bit
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), "bus": Out(Wishbone())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.receiver = receiver = Receiver(self.cycles_per_bit)
        m.submodules.transmitter = transmitter = Transmitter(self.cycles_per_bit)
        bus = self.bus
        state, count, writes, burst, failed = Signal(_State), Signal(3), Signal(), Signal(), Signal()
        # Of a burst: the words after this one, and the step.
        left, step = Signal(16), Signal(signed(8))
        address, word = Signal(32), Signal(32)
        # The bytes to send, from the lowest on; `count` is their number.
        answer = Signal(40)
        patience = PAUSE * 10 * self.cycles_per_bit
        waited = Signal(range(patience + 1))
        m.d.comb += [
            receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx),
            bus.adr.eq(address[2:]), bus.dat_w.eq(word), bus.we.eq(writes), bus.sel.eq(0b1111),
            transmitter.byte.eq(answer[:8]), transmitter.valid.eq((state == _State.ANSWER) & (count != 0)),
        ]  # fmt: skip
        m.d.sync += waited.eq(Mux(receiver.valid | (state == _State.COMMAND), 0, waited + 1))

        with m.Switch(state):
            with m.Case(_State.COMMAND), m.If(receiver.valid):
                known = receiver.byte.matches(*map(ord, "WRwr"))
                m.d.sync += [
                    writes.eq(receiver.byte.matches(*map(ord, "Ww"))),
                    burst.eq(receiver.byte.matches(*map(ord, "wr"))),
                    left.eq(0),
                    failed.eq(0),
                    answer.eq(ord("?")),
                    count.eq(Mux(known, 4, 1)),
                    state.eq(Mux(known, _State.ADDRESS, _State.ANSWER)),
                ]
            with m.Case(_State.ADDRESS):
                with m.If(receiver.valid):
                    m.d.sync += [address.eq(Cat(address[8:], receiver.byte)), count.eq(count - 1)]
                    with m.If(count == 1):
                        after = Mux(burst, _State.BURST, Mux(writes, _State.DATA, _State.TRANSFER))
                        m.d.sync += [count.eq(Mux(burst, 3, 4)), state.eq(after)]
                with m.Elif(waited == patience):
                    m.d.sync += state.eq(_State.COMMAND)
            with m.Case(_State.BURST):
                with m.If(receiver.valid):
                    m.d.sync += [Cat(left, step).eq(Cat(left[8:], step, receiver.byte)), count.eq(count - 1)]
                    with m.If(count == 1):
                        # The count is whole, and comes down by one to the words after the first.
                        m.d.sync += [
                            Cat(left, step).eq(Cat((Cat(left[8:], step) - 1)[:16], receiver.byte)),
                            count.eq(4),
                            state.eq(Mux(writes, _State.DATA, _State.TRANSFER)),
                        ]
                with m.Elif(waited == patience):
                    m.d.sync += state.eq(_State.COMMAND)
            with m.Case(_State.DATA):
                with m.If(receiver.valid):
                    m.d.sync += [word.eq(Cat(word[8:], receiver.byte)), count.eq(count - 1)]
                    with m.If(count == 1):
                        m.d.sync += state.eq(_State.TRANSFER)
                with m.Elif(waited == patience):
                    m.d.sync += state.eq(_State.COMMAND)
            with m.Case(_State.TRANSFER):
                # The bus addresses words: a byte address that is no multiple of four is refused.
                aligned = address[:2] == 0
                m.d.comb += [bus.cyc.eq(aligned), bus.stb.eq(aligned)]
                refused = bus.err | ~aligned
                with m.If(refused | bus.ack):
                    m.d.sync += [failed.eq(failed | refused), state.eq(_State.ANSWER)]
                    with m.If(writes & (left != 0)):
                        # The words of a burst that was refused are received to the last.
                        m.d.sync += [left.eq(left - 1), address.eq(address + step), count.eq(4), state.eq(_State.DATA)]
                    with m.Elif(refused | failed):
                        m.d.sync += [answer.eq(ord("E")), count.eq(1), left.eq(0)]
                    with m.Else():
                        m.d.sync += [
                            answer.eq(Cat(Const(ord("K"), 8), bus.dat_r)),
                            count.eq(Mux(writes, 1, 5)),
                        ]
            with m.Case(_State.ANSWER):
                with m.If((count == 0) & (left == 0)):
                    m.d.sync += state.eq(_State.COMMAND)
                with m.Elif(count == 0):
                    m.d.sync += [left.eq(left - 1), address.eq(address + step), state.eq(_State.TRANSFER)]
                with m.Elif(transmitter.ready):
                    m.d.sync += [answer.eq(answer >> 8), count.eq(count - 1)]
        return m
