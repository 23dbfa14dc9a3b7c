"""The retirement port: the effect of each instruction, after the RISC-V Formal Interface."""

from __future__ import annotations

from amaranth.hdl import signed
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from retrograd.hdl.microword import TrapCause
from retrograd.hdl.parameters import COUNTER, INSTRUCTION, Parameters

#: locations that an instruction may write
WRITTEN = ("d", "a", "b", "m")


class Retirement(wiring.Signature):
    """Valid for one cycle: the cycle after the last write, or after the trap. In other cycles only `valid` is defined."""

    def __init__(self, parameters: Parameters) -> None:
        width, pc = parameters.width, signed(parameters.pc_bits)
        places = {
            f"{place}_{member}": Out(shape)
            for place in WRITTEN
            for member, shape in (
                # the word and its cotangent: whether it was written, its value before, its value after
                ("written", 2),
                ("word_before", width),
                ("cotangent_before", width),
                ("word_after", width),
                ("cotangent_after", width),
            )
        }
        super().__init__(
            {
                #: an instruction retires or traps
                "valid": Out(1),
                #: the cause of the trap; all other state is then unchanged
                "trap": Out(TrapCause),
                #: the encoded instruction
                "instruction": Out(INSTRUCTION),
                "pc_before": Out(pc),
                "pc_after": Out(pc),
                "br_before": Out(width),
                "br_after": Out(width),
                #: DIR = −1
                "backward_before": Out(1),
                "backward_after": Out(1),
                #: cycles of all instructions that have retired
                "cycles": Out(COUNTER),
                #: address of the memory word
                "address": Out(width),
                **places,
            }
        )
