"""The retirement port: what each instruction did, in the manner of the RISC-V formal interface."""

from __future__ import annotations

from amaranth.hdl import signed
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from retrograd.hdl.microcode.microword import Trap
from retrograd.hdl.parameters import COUNTER, INSTRUCTION, Parameters

#: what an instruction may write
WRITTEN = ("d", "a", "b", "m")


class Retirement(wiring.Signature):
    """Valid for one cycle, that after the last write or the trap; the other members mean something then only."""

    def __init__(self, parameters: Parameters) -> None:
        width, pc = parameters.width, signed(parameters.pc_bits)
        places = {
            f"{place}_{member}": Out(shape)
            for place in WRITTEN
            for member, shape in (
                # the word and its cotangent: written or not, before, after
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
                #: why it trapped: then all else is as before
                "trap": Out(Trap),
                #: the instruction as it stands in the code
                "instruction": Out(INSTRUCTION),
                "pc_before": Out(pc),
                "pc_after": Out(pc),
                "br_before": Out(width),
                "br_after": Out(width),
                #: DIR = −1
                "backward_before": Out(1),
                "backward_after": Out(1),
                #: of the instructions retired so far, the cycles that they took
                "cycles": Out(COUNTER),
                #: the address of the memory word
                "address": Out(width),
                **places,
            }
        )
