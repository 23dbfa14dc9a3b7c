"""The branch unit: PC, BR and DIR.

PC += DIR · (BR if BR ≠ 0 else 1),  with DIR and BR after the instruction
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.parameters import Parameters


class BranchUnit(wiring.Component):
    """PC, BR and DIR. While no instruction is executed, the host may set them and reverse DIR."""

    def __init__(self, parameters: Parameters, tells: bool = False) -> None:
        """`tells`: with ports for PC and DIR as they will be if the instruction retires."""
        self.parameters = parameters
        self.tells = tells
        width, pc = parameters.width, signed(parameters.pc_bits)
        super().__init__(
            {
                #: the program counter
                "pc": Out(pc),
                #: the branch register
                "br": Out(width),
                #: DIR = −1
                "backward": Out(1),
                #: DIR was reversed by the host an odd number of times
                "turned": Out(1),
                #: 0 ≤ PC < `size`, the length of the program
                "size": In(range(parameters.code_words + 1)),
                "inside": Out(1),
                #: an instruction retires, unless it traps: if `jump`, BR := `target`; if `flip`, DIR := −DIR
                "prepare": In(1),
                #: the instruction does not trap
                "commit": In(1),
                "jump": In(1),
                "target": In(width),
                "flip": In(1),
                #: commands of the host: store `value` where `set_…` is high, or reverse DIR
                "value": In(pc),
                "set_pc": In(1),
                "set_br": In(1),
                "set_direction": In(1),
                "turn": In(1),
                **({"next_pc": Out(pc), "next_backward": Out(1)} if tells else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        br, backward = Signal(self.parameters.width), Signal()
        jumps = self.prepare & self.jump
        m.d.comb += [
            br.eq(Mux(jumps, self.target, self.br)),
            # The direction of the step. After a reversal the step undoes the step that led to this PC.
            backward.eq(self.backward ^ (self.prepare & self.flip) ^ self.turn),
            self.inside.eq((self.pc >= 0) & (self.pc < self.size)),
        ]
        # All sums stand ready before it is known which holds, since BR arrives late.
        following = Mux(jumps, self._after(m, self.target, backward), self._after(m, self.br, backward))
        if self.tells:
            m.d.comb += [self.next_pc.eq(following), self.next_backward.eq(backward)]
        with m.If(self.commit | self.turn):
            m.d.sync += [
                self.pc.eq(following),
                self.br.eq(br),
                self.backward.eq(backward),
                self.turned.eq(self.turned ^ self.turn),
            ]
        with m.If(self.set_pc):
            m.d.sync += self.pc.eq(self.value)
        with m.If(self.set_br):
            m.d.sync += self.br.eq(self.value)
        with m.If(self.set_direction):
            m.d.sync += self.backward.eq(self.value[-1])
        return m

    def _after(self, m: Module, br: Any, backward: Any) -> Any:
        """The PC after a step with this BR."""
        step = Signal(signed(self.parameters.pc_bits))
        m.d.comb += step.eq(br.as_signed())
        beside, there = Mux(backward, self.pc - 1, self.pc + 1), Mux(backward, self.pc - step, self.pc + step)
        return Mux(br == 0, beside, there)
