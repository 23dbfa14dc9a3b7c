"""The control of the core: decoder, control memory and sequencer.

decoder          the fields of an instruction, its constant and the negated constant, and whether the encoding is legal
control memory   dispatch entries and rows of the microcode, read ahead so that each cycle has its row
sequencer        the phases of an instruction, and the microword of each cycle
"""

from __future__ import annotations

from enum import Enum

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.control_store import Columns, control_store
from retrograd.hdl.microcode import DISPATCH_BITS, HEAD, Microcode
from retrograd.hdl.microword import COMMIT, MICROWORD

#: `isa.encoding`: op:8 rd:8 ra:8 rb:8 imm:32
FIELDS = data.StructLayout({"imm": signed(32), "rb": 8, "ra": 8, "rd": 8, "op": 8})


class Decoder(wiring.Component):
    """Legality is tested one cycle after the fields, when the dispatch memory has delivered the opcode's entry."""

    def __init__(self, width: int, head: data.StructLayout = HEAD) -> None:
        """`head`: the layout of the head of an entry of the dispatch memory."""
        self.width = width
        super().__init__(
            {
                #: the instruction; stable from the decode phase on
                "instruction": In(FIELDS),
                #: DIR = −1, and D
                "backward": In(1),
                "lifted": In(1),
                #: high in the decode phase
                "decode": In(1),
                #: address of the opcode's entry in the dispatch memory
                "opcode": Out(DISPATCH_BITS),
                #: the entry, in the next cycle
                "head": In(head),
                #: the encoding is legal
                "legal": Out(1),
                #: the constant with the sign of the executed instruction, and with the opposite sign; in the next cycle
                "imm": Out(unsigned(width)),
                "negated": Out(unsigned(width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        i = self.instruction
        pairs = Cat(i.rd == i.ra, i.rd == i.rb, i.ra == i.rb)
        m.d.comb += self.opcode.eq(Cat(i.op, self.backward, self.lifted, pairs[2]))

        # The entry of the opcode decides whether the constant is negated, and arrives one cycle later. Both constants
        # are kept, at the cost of a multiplexer.
        plain, opposite = Signal(self.width), Signal(self.width)
        fits, same, used, least = Signal(), Signal(3), Signal(4), Signal()
        low = min(self.width, 32) - 1
        with m.If(self.decode):
            m.d.sync += [
                plain.eq(i.imm),
                opposite.eq(-i.imm),
                same.eq(pairs),
                used.eq(Cat(i.rd.any(), i.ra.any(), i.rb.any(), i.imm.any())),
                # The constant must fit a word of less than 32 bits. Where the inverse negates it, the least number is
                # illegal, too.
                fits.eq((i.imm >> low == 0) | (i.imm >> low == -1)),
                least.eq(i.imm == -(1 << low)),
            ]
        h = self.head
        m.d.comb += [
            self.legal.eq(
                h.legal & ~(used & ~h.used).any() & ~(same & h.distinct).any() & fits & ~(h.negatable & least)
            ),
            self.imm.eq(Mux(h.negates, opposite, plain)),
            self.negated.eq(Mux(h.negates, plain, opposite)),
        ]
        return m


# -----------------------------------------------------------------------------
# The memories of the control store, read ahead so that each cycle has its row.
#
#     dispatch → entry         the head, and the references to the row and the blocks behind the first row
#     blocks → rows → words    the number of a block, the references of a row, its microword, each a cycle before the next


class ControlMemory(wiring.Component):
    """After a cycle with `first`, `row` is the second row of the entry; after another cycle, it is the row behind the last one."""

    def __init__(self, microcode: Microcode) -> None:
        self.store = control_store(microcode)
        super().__init__(
            {
                #: the address of an entry, and whether it is read
                "opcode": In(range(len(microcode.dispatch))),
                "read": In(1),
                #: the head of the entry that was read last
                "head": Out(microcode.head),
                "first": In(1),
                "row": Out(microcode.microword),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        store, first = self.store, self.first
        entry = Signal(store.entry)
        for k, part in enumerate(store.dispatch):
            word = _read(m, f"dispatch{k}", part.columns, self.opcode[: part.address], self.read)
            m.d.comb += [Value.cast(entry)[bit].eq(word[at]) for at, bit in enumerate(part.bits)]
        m.d.comb += self.head.eq(entry.head)

        # The block of the row after the row that is read, and the place of the number of the block that follows.
        block, offset, place = Signal.like(entry.block), Signal(range(store.block)), Signal.like(entry.following)
        number = _read(m, "blocks", store.blocks, Mux(first, entry.following, place))
        ends = offset == store.block - 1
        m.d.sync += [
            offset.eq(Mux(first, 1, offset + 1)),
            block.eq(Mux(first, entry.block, Mux(ends, number, block))),
            place.eq(Mux(first, entry.following, place + ends)),
        ]
        at = Cat(Mux(first, 0, offset), Mux(first, entry.block, block))
        row = _read(m, "rows", store.rows, at)
        references = Signal.like(entry.second)
        m.d.comb += references.eq(Mux(first, entry.second, row))
        low = 0
        for k, cluster in enumerate(store.clusters):
            word = _read(m, f"words{k}", cluster.columns, references[low : low + cluster.reference])
            m.d.comb += [Value.cast(self.row)[bit].eq(word[at]) for at, bit in enumerate(cluster.bits)]
            low += cluster.reference
        return m


def _read(m: Module, name: str, stored: Columns, address: Value, enable: Value | int = 1) -> Value:
    """The word at this address in the previous cycle, with all its columns."""
    if not stored.width:
        return Cat(Const(~place, 1) for place in stored.places)
    memory = Memory(MemoryData(shape=stored.width, depth=max(2, len(stored.words)), init=stored.words))
    m.submodules[name] = memory
    port = memory.read_port()
    m.d.comb += [port.addr.eq(address), port.en.eq(enable)]
    return Cat(port.data[place] if place >= 0 else Const(~place, 1) for place in stored.places)


# -----------------------------------------------------------------------------
# The sequencer: one instruction after another.


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
