"""The memories of the control store, read ahead so that each cycle has its row.

dispatch → entry: the head, and the references to the row and the blocks behind the first row
blocks → rows → words: the number of a block, the references of a row, its microword, each a cycle before the next
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.control_store import Columns, control_store
from retrograd.hdl.microcode import Microcode


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

        # The block of the row behind the row that is read, and the place of the number of the block behind that.
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
    """The word that a memory had at this address in the cycle before, with all its columns."""
    if not stored.width:
        return Cat(Const(~place, 1) for place in stored.places)
    memory = Memory(MemoryData(shape=stored.width, depth=max(2, len(stored.words)), init=stored.words))
    m.submodules[name] = memory
    port = memory.read_port()
    m.d.comb += [port.addr.eq(address), port.en.eq(enable)]
    return Cat(port.data[place] if place >= 0 else Const(~place, 1) for place in stored.places)
