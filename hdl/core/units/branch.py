"""The branch unit: where control stands, and which way it goes.

PC += DIR · (BR if BR ≠ 0 else 1),  with DIR and BR as the instruction leaves them
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.parameters import Parameters


class BranchUnit(wiring.Component):
    """PC, BR and DIR. The host may set them, and turn the machine round, while nothing is executed."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        width, pc = parameters.width, signed(parameters.pc_bits)
        super().__init__(
            {
                #: where control stands
                "pc": Out(pc),
                #: the branch register
                "br": Out(width),
                #: DIR = −1
                "backward": Out(1),
                #: the machine was turned round, and not turned back
                "turned": Out(1),
                #: PC is in the code, which has `size` instructions
                "size": In(range(parameters.code_words + 1)),
                "inside": Out(1),
                #: an instruction retires, if it does not trap: BR changes, if `jump`, to `target`; DIR flips, if `flip`
                "prepare": In(1),
                #: it does not trap
                "commit": In(1),
                "jump": In(1),
                "target": In(width),
                "flip": In(1),
                #: the host's: set what `set_…` names to `value`, or turn round
                "value": In(pc),
                "set_pc": In(1),
                "set_br": In(1),
                "set_direction": In(1),
                "turn": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        br, backward = Signal(self.parameters.width), Signal()
        step = Signal(signed(self.parameters.pc_bits))
        m.d.comb += [
            br.eq(Mux(self.prepare & self.jump, self.target, self.br)),
            # The way the step goes: turning round takes back the step that led here.
            backward.eq(self.backward ^ (self.prepare & self.flip) ^ self.turn),
            step.eq(Mux(br == 0, 1, br.as_signed())),
            self.inside.eq((self.pc >= 0) & (self.pc < self.size)),
        ]
        with m.If(self.commit | self.turn):
            m.d.sync += [
                self.pc.eq(Mux(backward, self.pc - step, self.pc + step)),
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
