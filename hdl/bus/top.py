"""The co-processor on a bus, and on a serial line."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from retrograd.hdl.bus.host_interface import HostInterface
from retrograd.hdl.bus.serial_line import SerialHost
from retrograd.hdl.bus.wishbone import AxiLite, AxiLiteBridge, Wishbone
from retrograd.hdl.core.barrel import BarrelCore
from retrograd.hdl.core.cores import SingleCore, barrel_of, core_of
from retrograd.hdl.core.ports import Retirement
from retrograd.hdl.parameters import Parameters
from retrograd.isa.microarchitecture.micro_operations import BARREL

#: ports that core and host interface share
_SHARED = (
    "run", "code_size", "data_size", "idle", "begins", "halts", "traps", "pc", "br", "backward",
)  # fmt: skip
_FROM_HOST = ("run", "code_size", "data_size")


def _memory_of(parameters: Parameters) -> dict[str, Any]:
    """The bus to a memory of the host, for a co-processor with direct memory access, which is the master."""
    return {"memory": Out(Wishbone(bursts=True))} if parameters.dma else {}


class Coprocessor(wiring.Component):
    """A core with its host interface."""

    def __init__(self, parameters: Parameters, microcode: Any = None) -> None:
        several, self.dma = parameters.core == BARREL, parameters.dma
        self.core: SingleCore | BarrelCore = (barrel_of if several else core_of)(parameters, microcode)
        super().__init__(
            {
                "bus": In(Wishbone()),
                #: high while an enabled event is pending
                "interrupt": Out(1),
                **_memory_of(parameters),
                #: a run or a copy goes on, or words are being set to zero
                "busy": Out(1),
                #: the retirement port; the threads of the core barrel share it, and `told` is the thread
                "retirement": Out(Retirement(parameters)),
                **({"told": Out(parameters.lanes)} if several else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = core = self.core
        m.submodules.host = host = HostInterface(core.parameters)
        connect(m, flipped(self.bus), host.bus)
        if self.dma:
            connect(m, host.memory, flipped(self.memory))
        if isinstance(core, BarrelCore):
            m.d.comb += [core.selected.eq(host.selected), self.told.eq(core.told)]
            m.d.comb += [host.issued[i].eq(core.issued[i]) for i in range(2)]
        connect(m, core.retirement, flipped(self.retirement))
        m.d.comb += host.trap.eq(core.trap)
        for name in ("modes", "window", "settings"):
            connect(m, getattr(host, name), getattr(core, name))
        for name in _SHARED:
            of_host, of_core = getattr(host, name), getattr(core, name)
            m.d.comb += of_core.eq(of_host) if name in _FROM_HOST else of_host.eq(of_core)
        m.d.comb += [self.interrupt.eq(host.interrupt), self.busy.eq(host.busy)]
        m.d.comb += [host.counters[i].eq(core.counters[i]) for i in range(4)]
        return m


class AxiLiteCoprocessor(wiring.Component):
    """A co-processor on AXI4-Lite. The retirement port is not led out."""

    def __init__(self, parameters: Parameters, microcode: Any = None) -> None:
        self.coprocessor = Coprocessor(parameters, microcode)
        super().__init__({"bus": In(AxiLite()), "interrupt": Out(1), **_memory_of(parameters)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.coprocessor = coprocessor = self.coprocessor
        m.submodules.bridge = bridge = AxiLiteBridge()
        connect(m, flipped(self.bus), bridge.axi)
        connect(m, bridge.bus, coprocessor.bus)
        if coprocessor.dma:
            connect(m, coprocessor.memory, flipped(self.memory))
        m.d.comb += self.interrupt.eq(coprocessor.interrupt)
        return m


class SerialCoprocessor(wiring.Component):
    """A co-processor whose bus is a serial line, for boards with few pins."""

    def __init__(self, parameters: Parameters, cycles_per_bit: int, microcode: Any = None) -> None:
        self.coprocessor = Coprocessor(parameters, microcode)
        self.cycles_per_bit = cycles_per_bit
        super().__init__(
            {"rx": In(1, init=1), "tx": Out(1, init=1), "interrupt": Out(1), "busy": Out(1), **_memory_of(parameters)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.coprocessor = coprocessor = self.coprocessor
        m.submodules.serial = serial = SerialHost(self.cycles_per_bit)
        connect(m, serial.bus, coprocessor.bus)
        if coprocessor.dma:
            connect(m, coprocessor.memory, flipped(self.memory))
        m.d.comb += [serial.rx.eq(self.rx), self.tx.eq(serial.tx)]
        m.d.comb += [self.interrupt.eq(coprocessor.interrupt), self.busy.eq(coprocessor.busy)]
        return m
