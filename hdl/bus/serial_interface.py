"""The bus over a serial line, for boards: each command of the host is one transfer.

    'W' address data  →  'K' if it was carried out, 'E' if refused
    'R' address       →  'K' data, or 'E'

Byte addresses and data have 4 bytes, lowest first. Any other command is answered by '?'. An incomplete command is discarded
after a pause, so a host that has lost synchronisation regains it by waiting.
"""

from __future__ import annotations

from enum import Enum

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.bus.uart import Receiver, Transmitter
from retrograd.hdl.bus.wishbone import Wishbone

#: longest pause within a command, in bytes' time
PAUSE = 64


class _State(Enum):
    COMMAND = 0
    ADDRESS = 1
    DATA = 2
    TRANSFER = 3
    ANSWER = 4


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
        state, count, writes = Signal(_State), Signal(3), Signal()
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
                known = (receiver.byte == ord("W")) | (receiver.byte == ord("R"))
                m.d.sync += [
                    writes.eq(receiver.byte == ord("W")),
                    answer.eq(ord("?")),
                    count.eq(Mux(known, 4, 1)),
                    state.eq(Mux(known, _State.ADDRESS, _State.ANSWER)),
                ]
            with m.Case(_State.ADDRESS):
                with m.If(receiver.valid):
                    m.d.sync += [address.eq(Cat(address[8:], receiver.byte)), count.eq(count - 1)]
                    with m.If(count == 1):
                        m.d.sync += [count.eq(4), state.eq(Mux(writes, _State.DATA, _State.TRANSFER))]
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
                with m.If(bus.err | ~aligned):
                    m.d.sync += [answer.eq(ord("E")), count.eq(1), state.eq(_State.ANSWER)]
                with m.Elif(bus.ack):
                    m.d.sync += [
                        answer.eq(Cat(Const(ord("K"), 8), bus.dat_r)),
                        count.eq(Mux(writes, 1, 5)),
                        state.eq(_State.ANSWER),
                    ]
            with m.Case(_State.ANSWER):
                with m.If(count == 0):
                    m.d.sync += state.eq(_State.COMMAND)
                with m.Elif(transmitter.ready):
                    m.d.sync += [answer.eq(answer >> 8), count.eq(count - 1)]
        return m
