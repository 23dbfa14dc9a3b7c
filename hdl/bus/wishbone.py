"""The parallel buses of the co-processor, 32 bits wide: Wishbone, and AXI4-Lite with a bridge to Wishbone.

Sources: Wishbone B4; Arm IHI 0022, AMBA AXI and ACE protocol specification, part B.
"""

from __future__ import annotations

from enum import Enum

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

# -----------------------------------------------------------------------------
# Wishbone, seen from its master: classic transfers and, if the master has them, the signals of bursts.


class Wishbone(wiring.Signature):
    """A transfer lasts from `cyc` and `stb` to `ack`, if it was carried out, or `err`, if it was refused.

    `bursts`: the master announces the transfer that follows, so that a slave may answer it in the next cycle.
    """

    def __init__(self, bursts: bool = False) -> None:
        super().__init__(
            {
                "cyc": Out(1),
                "stb": Out(1),
                #: a write
                "we": Out(1),
                #: the address in words of four bytes
                "adr": Out(30),
                #: byte enables
                "sel": Out(4),
                "dat_w": Out(32),
                "dat_r": In(32),
                "ack": In(1),
                "err": In(1),
                #: the kind of the transfer, and of the addresses that follow: 0 for consecutive addresses
                **({"cti": Out(3), "bte": Out(2)} if bursts else {}),
            }
        )


# -----------------------------------------------------------------------------
# AXI4-Lite. Its master reaches the same slots at the same byte addresses.
#
# The answer to a refused transfer, and to an address that is no multiple of four, is SLVERR.


class Response(Enum):
    """Answers to a transfer."""

    OKAY = 0
    SLVERR = 2


class AxiLite(wiring.Signature):
    """Five channels, seen from the master. A word passes in a cycle in which `valid` and `ready` are high."""

    def __init__(self) -> None:
        super().__init__(
            {
                # the address of a write
                "awvalid": Out(1),
                "awready": In(1),
                "awaddr": Out(32),
                "awprot": Out(3),
                # its data
                "wvalid": Out(1),
                "wready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                # its answer
                "bvalid": In(1),
                "bready": Out(1),
                "bresp": In(2),
                # the address of a read
                "arvalid": Out(1),
                "arready": In(1),
                "araddr": Out(32),
                "arprot": Out(3),
                # its answer
                "rvalid": In(1),
                "rready": Out(1),
                "rdata": In(32),
                "rresp": In(2),
            }
        )


class _State(Enum):
    IDLE = 0
    TRANSFER = 1
    ANSWER = 2


class AxiLiteBridge(wiring.Component):
    """A slave of AXI4-Lite that is a master of Wishbone, for one transfer at a time. If a write and a read wait, they take turns."""

    def __init__(self) -> None:
        super().__init__({"axi": In(AxiLite()), "bus": Out(Wishbone())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        axi, bus = self.axi, self.bus
        state, writes = Signal(_State), Signal()
        address, data, strobes = Signal(32), Signal(32), Signal(4)
        found, response = Signal(32), Signal(Response)
        # An address and its data are taken together; `writes` is the kind of the last transfer.
        write, read = Signal(), Signal()
        waits = axi.awvalid & axi.wvalid
        m.d.comb += [
            write.eq((state == _State.IDLE) & waits & ~(axi.arvalid & writes)),
            read.eq((state == _State.IDLE) & axi.arvalid & ~write),
            axi.awready.eq(write), axi.wready.eq(write), axi.arready.eq(read),
            axi.bvalid.eq((state == _State.ANSWER) & writes), axi.bresp.eq(response),
            axi.rvalid.eq((state == _State.ANSWER) & ~writes), axi.rresp.eq(response), axi.rdata.eq(found),
            bus.adr.eq(address[2:]), bus.dat_w.eq(data), bus.sel.eq(strobes), bus.we.eq(writes),
        ]  # fmt: skip
        with m.Switch(state):
            with m.Case(_State.IDLE), m.If(write | read):
                m.d.sync += [
                    state.eq(_State.TRANSFER),
                    writes.eq(write),
                    address.eq(Mux(write, axi.awaddr, axi.araddr)),
                    data.eq(axi.wdata),
                    strobes.eq(Mux(write, axi.wstrb, 0b1111)),
                ]
            with m.Case(_State.TRANSFER):
                aligned = address[:2] == 0
                m.d.comb += [bus.cyc.eq(aligned), bus.stb.eq(aligned)]
                with m.If(bus.ack | bus.err | ~aligned):
                    m.d.sync += [
                        state.eq(_State.ANSWER),
                        found.eq(bus.dat_r),
                        response.eq(Mux(bus.ack & aligned, Response.OKAY, Response.SLVERR)),
                    ]
            with m.Case(_State.ANSWER), m.If(Mux(writes, axi.bready, axi.rready)):
                m.d.sync += state.eq(_State.IDLE)
        return m
