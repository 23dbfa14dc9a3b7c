"""The sequencer: the phases of an instruction, and the microword of each cycle."""

from __future__ import annotations

from enum import Enum

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.microcode import ADDRESS_BITS, DISPATCH, Microcode
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
    """Two memories: the dispatch memory has the entry of each opcode with its first microword, the microcode memory the other rows."""

    def __init__(self, microcode: Microcode) -> None:
        depth = len(microcode.dispatch)
        self.dispatch = MemoryData(shape=DISPATCH.size, depth=depth, init=microcode.dispatch)
        self.rows = MemoryData(shape=MICROWORD.size, depth=max(2, len(microcode.rows)), init=microcode.rows)
        super().__init__(
            {
                #: begin instructions
                "run": In(1),
                #: the instruction stops here: a trap, or an end of the program
                "abandon": In(1),
                #: address of the instruction's entry in the dispatch memory; valid in the decode phase
                "opcode": In(range(depth)),
                "phase": Out(Phase),
                #: the entry of the instruction, from the read phase on
                "head": Out(DISPATCH),
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
        m.submodules.dispatch = dispatch = Memory(self.dispatch)
        m.submodules.rows = rows = Memory(self.rows)
        head, row = dispatch.read_port(), rows.read_port()
        at, runs = Signal(ADDRESS_BITS), Signal()
        m.d.comb += runs.eq(self.phase == Phase.RUN)
        m.d.comb += [
            head.addr.eq(self.opcode),
            head.en.eq(self.phase == Phase.DECODE),
            self.head.eq(head.data),
            # The first row is selected before the instruction is launched, too. The selection has no effect in those cycles.
            row.addr.eq(Mux(runs, at, self.head.start)),
            self.next.eq(Mux(runs, row.data, Value.cast(self.head.word))),
        ]
        m.d.sync += at.eq(row.addr + 1)

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
