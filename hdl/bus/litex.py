"""The co-processor as a module of LiteX: its Wishbone bus and its interrupt, in a system on a chip.

    self.retrograd = LitexCoprocessor(platform, folder, parameters)
    self.bus.add_slave("retrograd", self.retrograd.bus, LitexCoprocessor.region(0x8000_0000))
    self.irq.add("retrograd")
    self.bus.add_master("retrograd", self.retrograd.memory)         # with Parameters(…, dma=True)

It needs `pip install litex`, and importing this module imports LiteX. The region holds the slots of the register map. The memories are accessed through
POINTER and STREAM: from Python by `StreamedBus`, and from C by the addresses that `retrograd hdl registers --as c` writes. Trap: LiteX imports the
Python files in the working directory when it looks for processors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect import wishbone
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import ClockSignal, Instance, ResetSignal
from retrograd.hdl.bus.register_map import HostRegister
from retrograd.hdl.bus.top import Coprocessor
from retrograd.hdl.netlist import convert
from retrograd.hdl.parameters import Parameters
from retrograd.isa.files import write_file

#: bytes of the region
SIZE = 1 << (8 * len(HostRegister) - 1).bit_length()


class LitexCoprocessor(LiteXModule):
    """`bus` is the Wishbone slave, addressed in words of 32 bits. `ev.event` is pending while an enabled event of the co-processor is.

    With direct memory access, `memory` is a Wishbone master that reaches the memories of the system.
    """

    def __init__(self, platform: Any, folder: Path, parameters: Parameters | None = None) -> None:
        """Writes the Verilog to `folder`, and adds it to the sources of the platform."""
        self.bus = bus = wishbone.Interface(data_width=32, adr_width=30, addressing="word")
        self.ev = EventManager()
        self.ev.event = EventSourceLevel(description="An enabled event of the co-processor is pending.")
        self.ev.finalize()
        made = Coprocessor(parameters or Parameters())
        wires = {}
        if made.dma:
            self.memory = memory = wishbone.Interface(data_width=32, adr_width=30, addressing="word")
            for name in ("cyc", "stb", "we", "adr", "sel", "dat_w", "cti", "bte"):
                wires[f"o_memory__{name}"] = getattr(memory, name)
            for name in ("dat_r", "ack", "err"):
                wires[f"i_memory__{name}"] = getattr(memory, name)
        self.specials += Instance(
            "retrograd",
            **wires,
            i_clk=ClockSignal(), i_rst=ResetSignal(),
            # The region may have any origin.
            i_bus__adr=bus.adr[: (SIZE // 4 - 1).bit_length()],
            i_bus__cyc=bus.cyc, i_bus__stb=bus.stb, i_bus__we=bus.we, i_bus__sel=bus.sel, i_bus__dat_w=bus.dat_w,
            o_bus__dat_r=bus.dat_r, o_bus__ack=bus.ack, o_bus__err=bus.err, o_interrupt=self.ev.event.trigger,
        )  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / "retrograd.v", convert(made, "retrograd"))
        platform.add_source(str(folder / "retrograd.v"))

    @staticmethod
    def region(origin: int) -> SoCRegion:
        """The region for `add_slave`. Raises ValueError for an origin that is no multiple of SIZE."""
        if origin % SIZE:
            raise ValueError(f"the origin of the co-processor is a multiple of {SIZE:#x}, not {origin:#x}")
        return SoCRegion(origin=origin, size=SIZE, cached=False)
