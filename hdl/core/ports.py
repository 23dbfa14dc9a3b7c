"""The ports of a core: modes, settings and the window to its memories for the host, and the retirement port for observers.

The retirement port shows the effect of each instruction. Its form follows the RISC-V Formal Interface.
"""

from __future__ import annotations

from enum import Enum

from amaranth.hdl import signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.microword import TrapCause
from retrograd.hdl.parameters import COUNTER, INSTRUCTION, Parameters


class Space(Enum):
    """Memories that the window can address."""

    REGISTERS = 0
    REGISTER_COTANGENTS = 1
    DATA = 2
    DATA_COTANGENTS = 3
    CODE = 4


class Modes(wiring.Signature):
    """Modes of execution. The modes at the fetch of an instruction hold for its whole execution."""

    def __init__(self) -> None:
        super().__init__(
            {
                #: D: execute the cotangent step as well
                "differentiate": Out(1),
                #: trap where a fixed-point result does not fit
                "overflow": Out(1),
                #: trap on every erasure
                "strict": Out(1),
            }
        )


#: cycles from the address of a read in the window of the core barrel to the word; the state of the `selected` thread is
#: there a cycle sooner
THREAD_READ = 3


class Window(wiring.Signature):
    """Access to the memories while the core is idle: a cycle reads or writes one word."""

    def __init__(self) -> None:
        super().__init__(
            {
                "write_space": Out(Space),
                "write_address": Out(32),
                "write": Out(1),
                "written": Out(INSTRUCTION),
                "read_space": Out(Space),
                "read_address": Out(32),
                "read": Out(1),
                #: the word that was read, in the next cycle; of the core barrel, after `THREAD_READ` cycles
                "data": In(INSTRUCTION),
            }
        )


class Settings(wiring.Signature):
    """Access to PC, BR and DIR while the core is idle."""

    def __init__(self, parameters: Parameters) -> None:
        pc = parameters.pc_bits
        super().__init__(
            {
                "value": Out(pc),
                "set_pc": Out(1),
                "set_br": Out(1),
                "set_direction": Out(1),
                #: reverse DIR: the next step undoes the last step
                "turn": Out(1),
                #: the host has cleared all cotangents: forget which were discarded
                "forget": Out(1),
                #: set the counters to zero
                "clear": Out(1),
            }
        )


# -----------------------------------------------------------------------------
# The retirement port: the effect of each instruction, after the RISC-V Formal Interface.

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
