"""What a core and its host have in common: modes, settings, and the window to the memories."""

from __future__ import annotations

from enum import Enum

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.parameters import INSTRUCTION, Parameters


class Space(Enum):
    """What a host's window shows."""

    REGISTERS = 0
    REGISTER_COTANGENTS = 1
    DATA = 2
    DATA_COTANGENTS = 3
    CODE = 4


class Modes(wiring.Signature):
    """How instructions are executed. An instruction is executed as the modes are when it is fetched."""

    def __init__(self) -> None:
        super().__init__(
            {
                #: D: move cotangents too
                "differentiate": Out(1),
                #: trap where a fixed-point result does not fit
                "overflow": Out(1),
                #: erase nothing
                "strict": Out(1),
            }
        )


class Window(wiring.Signature):
    """A host's way to the memories, while the core is idle: one word read or written in a cycle."""

    def __init__(self) -> None:
        super().__init__(
            {
                "space": Out(Space),
                "address": Out(32),
                "write": Out(1),
                "written": Out(INSTRUCTION),
                "read": Out(1),
                #: what was read, in the next cycle
                "data": In(INSTRUCTION),
            }
        )


class Settings(wiring.Signature):
    """A host's way to PC, BR and DIR, while the core is idle."""

    def __init__(self, parameters: Parameters) -> None:
        pc = parameters.pc_bits
        super().__init__(
            {
                "value": Out(pc),
                "set_pc": Out(1),
                "set_br": Out(1),
                "set_direction": Out(1),
                #: face the other way: the next step takes back the last
                "turn": Out(1),
                #: cotangents are cleared: forget those that were dropped
                "forget": Out(1),
                #: counters to zero
                "clear": Out(1),
            }
        )
