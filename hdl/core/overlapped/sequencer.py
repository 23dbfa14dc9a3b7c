"""The sequencer of an overlapped core: three instructions are on their way to execution while one executes.

    fetch → decode → read [→ access] → execute … → write …

The last write of an instruction falls into the first cycle of execution of the next. An instruction on memory is addressed in each cycle in
which it is read and waits. It waits longer if its address or its word is not known in the cycle before it would begin. Cycles are additive
(docs/reference/timing.md).
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.control_memory import ControlMemory
from retrograd.hdl.core.sequencer import Phase
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.microword import ENDING, WIDE_COMMIT


class OverlappedSequencer(wiring.Component):
    """`phase` is that of the oldest instruction that does not execute yet, or RUN while an instruction executes.

    An instruction is begun when it executes its first row. Before that it is dropped if `run` becomes low.
    """

    def __init__(self, microcode: Microcode) -> None:
        microword = microcode.microword
        self.memory = ControlMemory(microcode)
        super().__init__(
            {
                #: begin instructions
                "run": In(1),
                #: all instructions stop here: a trap, or an end of the program
                "abandon": In(1),
                #: the instruction that is read is one on memory, and will be executed
                "accesses": In(1),
                #: its address register is written in this cycle, and in the next
                "stale": In(1),
                "unknown": In(1),
                #: the instruction that is read has no effect, but traps or halts
                "doomed": In(1),
                #: only after the instruction that executes is the next one known
                "redirects": In(1),
                #: and it is known in the last cycle of execution
                "leaps": In(1),
                #: address in the dispatch memory of the instruction that is decoded
                "opcode": In(range(len(microcode.dispatch))),
                "phase": Out(Phase),
                #: the code memory is read, at PC if `restart`, at the next PC if also `leap`, else behind the instruction that is decoded
                "fetch": Out(1),
                "restart": Out(1),
                "leap": Out(1),
                #: the instruction that is decoded will be read in the next cycle
                "advance": Out(1),
                #: the entry of the instruction that is read
                "head": Out(microcode.head),
                #: the instruction that is read begins in the next cycle; and: it does so in this cycle
                "launch": Out(1),
                "begins": Out(1),
                #: an instruction writes for the last time in the next cycle; and the registers that it then writes
                "ending": Out(1),
                "closing": Out(ENDING),
                #: no row of an instruction that executes follows, so the operands of the next cycle are those of the next instruction
                "fresh": Out(1),
                #: the memory is read for the instruction that is read; and: a word that was read in the cycle before is right
                "reads": Out(1),
                "ready": Out(1),
                #: the row of the next cycle; the microword of the next cycle, which may be the first of the next instruction; and that of
                #: this cycle. They are undefined outside of execution.
                "row": Out(microword),
                "next": Out(microword),
                "now": Out(microword),
                #: the changes of state that this cycle commits, and those of the next; and those of this cycle, also if nothing executes
                "commit": Out(WIDE_COMMIT),
                "written": Out(WIDE_COMMIT),
                "commits": Out(WIDE_COMMIT),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = self.memory
        phase = self.phase
        idle = phase == Phase.IDLE

        # ------------------------------------------------ rows
        executes, active, doom = Signal(), Signal(), Signal()
        m.d.comb += [
            # The row at the memory's output belongs to an instruction.
            active.eq(executes & (phase == Phase.RUN)),
            # Where nothing begins after all, no row is needed; whether it begins is known late.
            memory.first.eq(self.fresh),
            self.row.eq(memory.row),
            self.next.eq(Mux(self.fresh, Value.cast(self.head.word), Value.cast(memory.row))),
            self.commits.eq(Mux(active, Value.cast(self.row.commit), 0)),
            self.commit.eq(Mux(idle, 0, self.written)),
            # From the row that executes, since the next one arrives late.
            self.closing.eq(Mux(active, Value.cast(self.now.ending), 0)),
            self.ending.eq(self.closing.last),
            self.fresh.eq(~active | self.ending),
        ]
        m.d.sync += [
            self.now.eq(self.next),
            self.written.eq(self.commits),
            executes.eq((active & ~self.ending) | (self.launch & ~self.doomed)),
            self.begins.eq(self.launch & ~self.abandon),
            doom.eq(self.launch & self.doomed),
        ]

        # ------------------------------------------------ decode and read
        decoding, reading = Signal(), Signal()
        m.d.comb += [
            memory.opcode.eq(self.opcode),
            memory.read.eq(self.advance),
            self.head.eq(memory.head),
            self.leap.eq(self.ending & self.leaps),
            self.restart.eq((phase == Phase.FETCH) | self.leap),
            self.advance.eq(~idle & decoding & ~self.restart & (~reading | self.launch)),
            self.fetch.eq(self.restart | (~idle & (~decoding | self.advance))),
        ]
        m.d.sync += [
            decoding.eq(~idle & (self.fetch | (decoding & ~self.advance))),
            reading.eq(~idle & ~self.restart & (self.advance | (reading & ~self.launch))),
        ]

        # ------------------------------------------------ memory
        accessed = Signal()
        # No other write than the last is in the cycle before an instruction begins.
        stores = self.closing.stores
        m.d.comb += [
            # for any instruction, since most instructions do not use the word
            self.reads.eq(reading),
            self.ready.eq(accessed & ~(self.stale | self.unknown | stores)),
        ]
        m.d.sync += accessed.eq(self.reads & ~self.launch)

        # ------------------------------------------------ phases
        follows, waits = Signal(), Signal()
        m.d.comb += [
            waits.eq(self.accesses & ~self.ready),
            # The instruction that is read is the next one.
            follows.eq((phase == Phase.READ) | (self.ending & ~self.redirects)),
            self.launch.eq(self.run & ((follows & ~waits) | (phase == Phase.ACCESS))),
        ]
        again = Mux(self.leaps, Phase.DECODE, Phase.FETCH)
        waiting = Mux(self.unknown, Phase.ADDRESS, Phase.ACCESS)
        with m.Switch(phase):
            with m.Case(Phase.IDLE):
                m.d.sync += phase.eq(Mux(self.run, Phase.FETCH, Phase.IDLE))
            with m.Case(Phase.FETCH):
                m.d.sync += phase.eq(Mux(self.run, Phase.DECODE, Phase.IDLE))
            with m.Case(Phase.DECODE):
                m.d.sync += phase.eq(Mux(self.run, Phase.READ, Phase.IDLE))
            with m.Case(Phase.READ):
                m.d.sync += phase.eq(Mux(self.run, Mux(waits, Phase.ACCESS, Phase.RUN), Phase.IDLE))
            with m.Case(Phase.ADDRESS):
                m.d.sync += phase.eq(Mux(self.run, Phase.ACCESS, Phase.IDLE))
            with m.Case(Phase.ACCESS):
                m.d.sync += phase.eq(Mux(self.run, Phase.RUN, Phase.IDLE))
            with m.Case(Phase.RUN):
                with m.If(self.ending & self.run):
                    m.d.sync += phase.eq(Mux(self.redirects, again, Mux(waits, waiting, Phase.RUN)))
                # The last write, or the trap of an instruction that is doomed
                with m.Elif(~active & ~doom):
                    m.d.sync += phase.eq(Phase.IDLE)
        with m.If(self.abandon):
            m.d.sync += phase.eq(Phase.IDLE)
        return m
