"""Waveforms with the program in them: the instruction and its operands as text, beside PC, BR and DIR.

`Simulation.run(orders, vcd="run.vcd")` writes them, and beside them run.gtkw, with which GTKWave shows the signals in order.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Elaboratable, Module, Signal, signed
from retrograd.hdl.core.core import Core
from retrograd.hdl.core.decoder import FIELDS
from retrograd.hdl.parameters import INSTRUCTION
from retrograd.isa.diagnostics import RetrogradError
from retrograd.isa.encoding import decode, write


class Watched(Elaboratable):
    """A core, and signals whose values are text."""

    def __init__(self, core: Core) -> None:
        self.core, p = core, core.parameters
        retirement = core.retirement

        def mnemonic(word: int) -> str:
            try:
                return write(decode(word, p.table)).replace(" ", "_")
            except RetrogradError:
                return "illegal"

        def register(number: int) -> str:
            return f"r{number}"

        #: text of the instruction that is executed
        self.instruction = Signal(INSTRUCTION, decoder=mnemonic)
        #: its fields
        self.rd, self.ra, self.rb = (Signal(8, name=name, decoder=register) for name in ("rd", "ra", "rb"))
        self.pc = Signal(signed(p.pc_bits), name="PC")
        self.br = Signal(signed(p.width), name="BR")
        self.direction = Signal(name="DIR", decoder=lambda backward: "backward" if backward else "forward")
        self.d = Signal(name="D")
        self.retires = Signal()
        self.trap = Signal.like(retirement.trap, name="trap_code")
        self.cycles = Signal.like(retirement.cycles, name="cycle_count")
        #: words and cotangents that it writes
        self.places = {
            f"{place}_{member}": Signal(signed(p.width), name=f"{place}_{member}")
            for place in "dabm"
            for member in ("word_before", "word_after", "cotangent_before", "cotangent_after")
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = core = self.core
        retirement = core.retirement
        fields = Signal(FIELDS)
        m.d.comb += [
            self.instruction.eq(retirement.instruction), fields.eq(retirement.instruction),
            self.rd.eq(fields.rd), self.ra.eq(fields.ra), self.rb.eq(fields.rb),
            self.pc.eq(core.pc.as_signed()), self.br.eq(core.br.as_signed()), self.direction.eq(core.backward),
            self.d.eq(core.modes.differentiate), self.retires.eq(retirement.valid),
            self.trap.eq(retirement.trap), self.cycles.eq(retirement.cycles),
            *(signal.eq(getattr(retirement, name)) for name, signal in self.places.items()),
        ]  # fmt: skip
        return m

    @property
    def traces(self) -> list[Any]:
        """Signals in the order in which a viewer shows them."""
        control = [self.instruction, self.rd, self.ra, self.rb, self.pc, self.br, self.direction, self.d]
        return [*control, self.retires, self.trap, self.cycles, *self.places.values()]
