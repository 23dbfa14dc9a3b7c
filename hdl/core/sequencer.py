"""The sequencer: the phases of an instruction, and the microword of each cycle."""

from __future__ import annotations

from enum import Enum

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.control_memory import ControlMemory
from retrograd.hdl.dispatch import HEAD
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.microword import COMMIT, MICROWORD


class Phase(Enum):
    """Phases of an instruction (docs/reference/timing.md). The microcode separates execution from writes."""

    IDLE = 0
    FETCH = 1
    DECODE = 2
    READ = 3
    ADDRESS = 4
    ACCESS = 5
    RUN = 6


class Sequencer(wiring.Component):
    """The entry of each opcode has its first microword, and the control memory delivers the others."""

    def __init__(self, microcode: Microcode) -> None:
        self.memory = ControlMemory(microcode)
        super().__init__(
            {
                #: begin instructions
                "run": In(1),
                #: the instruction stops here: a trap, or an end of the program
                "abandon": In(1),
                #: address of the instruction's entry in the dispatch memory; valid in the decode phase
                "opcode": In(range(len(microcode.dispatch))),
                "phase": Out(Phase),
                #: the entry of the instruction, from the read phase on
                "head": Out(HEAD),
                #: the last cycle before execution
                "launch": Out(1),
                #: the microwords of the next cycle and of this cycle; undefined outside of execution
                "next": Out(MICROWORD),
                "now": Out(MICROWORD),
                #: the changes of state that this cycle commits
                "commit": Out(COMMIT),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = self.memory
        runs = Signal()
        m.d.comb += [
            runs.eq(self.phase == Phase.RUN),
            memory.opcode.eq(self.opcode),
            memory.read.eq(self.phase == Phase.DECODE),
            self.head.eq(memory.head),
            # The first row is selected before the instruction is launched, too. The selection has no effect in those cycles.
            memory.first.eq(~runs),
            self.next.eq(Mux(runs, Value.cast(memory.row), Value.cast(self.head.word))),
        ]
        m.d.sync += self.now.eq(self.next)
        m.d.comb += self.commit.eq(Mux(runs, Value.cast(self.now.commit), 0))
        with m.Switch(self.phase):
            with m.Case(Phase.IDLE), m.If(self.run):
                m.d.sync += self.phase.eq(Phase.FETCH)
            with m.Case(Phase.FETCH):
                m.d.sync += self.phase.eq(Phase.DECODE)
            with m.Case(Phase.DECODE):
                m.d.sync += self.phase.eq(Phase.READ)
            with m.Case(Phase.READ):
                m.d.comb += self.launch.eq(~self.head.memory)
                m.d.sync += self.phase.eq(Mux(self.head.memory, Phase.ADDRESS, Phase.RUN))
            with m.Case(Phase.ADDRESS):
                m.d.sync += self.phase.eq(Phase.ACCESS)
            with m.Case(Phase.ACCESS):
                m.d.comb += self.launch.eq(1)
                m.d.sync += self.phase.eq(Phase.RUN)
            with m.Case(Phase.RUN), m.If(self.now.commit.last):
                m.d.sync += self.phase.eq(Mux(self.run, Phase.FETCH, Phase.IDLE))
        with m.If(self.abandon):
            m.d.sync += self.phase.eq(Phase.IDLE)
        return m
