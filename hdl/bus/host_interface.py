"""The host interface: the core as a device on a bus. docs/coprocessor.md has the register map.

Each register has a slot of eight bytes, low word first. A write to the high word is held, and the write to the low word commits
both. A read of the low word captures the high word for the next read. So 64 bits are written and read atomically. A held half
belongs to its slot: a write to the low word of another slot discards it, and a read of the high word of another slot is refused.

Direct memory access copies words between a memory of the host and the co-processor, without work of the host.
"""

from __future__ import annotations

from contextlib import nullcontext
from enum import Enum
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out, connect, flipped
from retrograd.hdl.bus.register_map import MAGIC, UNLIMITED, Access, Area, HostRegister
from retrograd.hdl.bus.wishbone import Wishbone
from retrograd.hdl.core.ports import THREAD_READ, Modes, Settings, Space, Window
from retrograd.hdl.microword import TrapCause
from retrograd.hdl.parameters import COUNTER, REGISTERS, Parameters
from retrograd.isa.microarchitecture.micro_operations import BARREL

# -----------------------------------------------------------------------------
# Direct memory access.
#
#     copy in     M[address + 4·i]  →  the word at POINTER, which goes on to the next word
#     copy out    the word at POINTER, which goes on  →  M[address + 4·i]
#
# A word of up to 32 bits is one word of the memory; a longer word, and an instruction, is two, the low half first. The unit is a master of Wishbone with
# incrementing bursts, at one word of the memory in a clock. A burst ends where the address is a multiple of 64 bytes, so another master waits for 16 words
# at most. Memories that know no bursts see single transfers. Source: Wishbone B4, chapter 4, registered feedback bus cycles.

#: words of the host's memory in a burst
BURST = 16


class CycleType(Enum):
    """CTI: the kind of a transfer of a burst."""

    CLASSIC = 0
    INCREMENTING = 2
    END = 7


class DirectMemoryAccess(wiring.Component):
    """Copies `length` words. The host does not change the place and the kind of the words meanwhile.

    A stop command takes effect at the end of a word, since a master must finish a burst that it has announced. A word that the memory refuses
    ends the copy at once. `length` is then the number of words that have not been copied, and `address` the address of the first of them.
    """

    def __init__(self, parameters: Parameters) -> None:
        #: the low half of a word has been copied, and its high half has not
        self.high = Signal()
        #: the co-processor's memories take some cycles for a word
        self.waits = parameters.core == BARREL
        # A bit more than the number of words of the largest area.
        length = max(REGISTERS, parameters.code_words, parameters.data_words).bit_length() + 1
        super().__init__(
            {
                #: the host's memory
                "memory": Out(Wishbone(bursts=True)),
                # the host's slots: address in words of four bytes, and words to copy
                "value": In(64),
                "set_address": In(1),
                "set_length": In(1),
                "address": Out(30),
                "length": Out(length),
                #: begin, in this direction; stop
                "begin": In(1),
                "out": In(1),
                "stop": In(1),
                #: the words have two halves
                "wide": In(1),
                "busy": Out(1),
                #: in the last cycle of a copy: it is done, or was stopped; or the memory has refused a word
                "done": Out(1),
                "fails": Out(1),
                #: the memory has refused a word of the last copy
                "failed": Out(1),
                # the co-processor's memories: write this word, or read a word, which is valid from the next cycle to
                # the next read
                "write": Out(1),
                "written": Out(64),
                "read": Out(1),
                "found": In(64),
                # of memories that take some cycles: each word is written several times; the word that was read is not
                # there yet; the word is written again in the next cycle
                **(dict.fromkeys(("several", "late", "held"), In(1)) if self.waits else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        memory, address, length = self.memory, self.address, self.length
        outwards, high, stops, ending = Signal(), self.high, Signal(), Signal()
        # A word from the memory is whole in the cycle after its last half.
        word, whole = Signal(64), Signal()
        ends_word, last = Signal(), Signal()
        # A memory that takes some cycles for a word is not in time for the next transfer, so the burst ends.
        ends_burst: Value = (length == 1) | ending
        ready, again, free = memory.cyc, Const(0), self.busy
        if self.waits:
            ends_burst = ends_burst | outwards | self.several
            ready, again, free = memory.cyc & ~self.late, whole & self.held, self.busy & ~self.held
        # Signals of a transfer depend only on registers that change with its answer, so they are held until the answer.
        m.d.comb += [
            ends_word.eq(high | ~self.wide),
            last.eq((address[: (BURST - 1).bit_length()] == BURST - 1) | (ends_word & ends_burst)),
            memory.stb.eq(ready),
            memory.we.eq(outwards),
            memory.adr.eq(address),
            memory.sel.eq(0b1111),
            memory.dat_w.eq(Mux(high, self.found[32:], self.found[:32])),
            memory.cti.eq(Mux(last, CycleType.END, CycleType.INCREMENTING)),
            self.written.eq(Cat(Mux(self.wide, word[:32], word[32:]), word[32:])),
            self.write.eq(whole),
        ]
        m.d.sync += whole.eq(again)
        with m.If(self.set_address):
            m.d.sync += address.eq(self.value[2:32])
        with m.If(self.set_length):
            # Too large a number is more than an area has.
            most = (1 << len(length)) - 1
            m.d.sync += length.eq(Mux(self.value > most, most, self.value))
        with m.If(self.stop):
            m.d.sync += stops.eq(1)
        with m.If(memory.cyc):
            with m.If(memory.err):
                m.d.comb += self.fails.eq(1)
                m.d.sync += [memory.cyc.eq(0), self.busy.eq(0), self.failed.eq(1)]
            with m.Elif(memory.ack):
                m.d.comb += self.read.eq(outwards & ends_word & ~last)
                m.d.sync += [
                    memory.cyc.eq(~last), ending.eq(stops), address.eq(address + 1), high.eq(~ends_word),
                    word.eq(Cat(word[32:], memory.dat_r)), whole.eq(ends_word & ~outwards),
                ]  # fmt: skip
                with m.If(ends_word):
                    m.d.sync += length.eq(length - 1)
        with m.Elif(free):
            # Before a burst. The last word from the memory is written in this cycle.
            with m.If(~high & (stops | (length == 0))):
                m.d.comb += self.done.eq(1)
                m.d.sync += self.busy.eq(0)
            with m.Else():
                m.d.comb += self.read.eq(outwards & ~high)
                m.d.sync += [memory.cyc.eq(1), ending.eq(stops)]
        with m.Elif(self.begin):
            m.d.sync += [self.busy.eq(1), outwards.eq(self.out), high.eq(0), stops.eq(self.stop), self.failed.eq(0)]
        return m


# -----------------------------------------------------------------------------
# The slots of the register map.

POINTER = HostRegister.POINTER.layout(False)
LANE = HostRegister.LANE.layout(False)

#: the other half of a transfer of 64 bits, and its slot: area and index
_HALF = data.StructLayout({"valid": 1, "slot": 29, "word": 32})
#: the write of a low half; the high half is the one that waited, or 0. Undefined unless valid.
_WRITE = data.StructLayout({"valid": 1, "in_window": 1, "area": 4, "index": 25, "low": 32, "high": 32})
#: what is decoded of a transfer: whether it is carried out, whether it completes the half that waits, and the word of its slot
_DECODED = data.StructLayout(
    {"allowed": 1, "in_window": 1, "streams": 1, "completes": 1, "slot": HostRegister, "told": 64}
)

#: slots that a host cannot write, and slots that it can write while the core is busy
_FIXED = tuple(slot for slot in HostRegister if slot.access is Access.READ)
_ALWAYS = tuple(slot for slot in HostRegister if slot.while_busy)
#: the bits of POINTER that exist
_POINTS = sum(field.mask for field in HostRegister.POINTER.fields)
#: the commands that copy words: in, and out
_COPIES = ("copy_in", "copy_out")
#: the commands after which the core is busy
_STARTING = ("run", "step", "zero_words", "zero_cotangents", *_COPIES)
#: the slots that the core barrel shows of one thread, while it is idle
_OF_THREAD = tuple(HostRegister[name] for name in ("PC", "BR", "CYCLES", "RETIRED", "TOGGLED", "ERASED"))
#: the areas that are set to zero, by the command that does it
_ZEROED = {
    "zero_words": (Area.REGISTERS, Area.DATA), "zero_cotangents": (Area.REGISTER_COTANGENTS, Area.DATA_COTANGENTS),
}  # fmt: skip


class HostInterface(wiring.Component):
    """Serves the bus and drives the core. A transfer takes at most three cycles, also while the core is busy.

    With the core barrel a transfer is decoded in its first cycle, into registers. A write is answered in its third
    cycle, a read after `THREAD_READ` + 1 cycles. The memories take a word for one thread in a cycle, so a write or a
    command for all threads takes as many cycles as there are threads, and the next transfer waits that long.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = p = parameters
        #: the registers that are set to zero; and whether words are being set to zero
        self.register_size = Signal(range(REGISTERS + 1), init=REGISTERS)
        self.zeroing = Signal()
        #: a word is set to zero in this cycle
        self.zeroes = Signal()
        #: the write that was accepted in the cycle before
        self.accepted = Signal(_WRITE)
        #: the high half that waits for its low half
        self.waiting = Signal(_HALF)
        #: the lane or thread that is seen, and whether commands go to all
        self.lane = Signal(LANE)
        #: the events that have happened, and the events that raise the interrupt line
        events = HostRegister.INTERRUPT_PENDING.layout(p.dma)
        self.pending = Signal(events)
        self.enabled = Signal(events)
        #: it copies words to and from the host's memory
        self.dma = DirectMemoryAccess(p) if p.dma else None
        several = p.core == BARREL
        #: in a core whose threads are written one after the other: the write goes on with the next thread
        self.goes_on = Signal() if several else None
        #: the cycles that a transfer has waited, a bit for each
        self.waited = Signal(THREAD_READ if several else 1)
        #: of the core barrel, whose clock is faster: the transfer as it was decoded a cycle before
        self.decoded = Signal(_DECODED, name="decoded") if several else None
        #: the accepted write is one that goes on with the next thread, if it goes to all
        self.spreads: Any = Signal(name="spreads") if several else None
        #: the next thread of a write for all threads
        self.thread = Signal(range(p.lanes))
        super().__init__(
            {
                "bus": In(Wishbone()),
                #: high while an enabled event is pending
                "interrupt": Out(1),
                #: the host's memory
                **({"memory": Out(Wishbone(bursts=True))} if p.dma else {}),
                #: a run or a copy goes on, or words are being set to zero
                "busy": Out(1),
                # the core's ports, in the opposite direction
                "run": Out(p.lanes),
                "modes": Out(Modes()),
                "code_size": Out(range(p.code_words + 1), init=p.code_words),
                "data_size": Out(range(p.data_words + 1), init=p.data_words),
                "idle": In(1),
                "begins": In(p.lanes),
                "halts": In(p.lanes),
                "traps": In(p.lanes),
                "trap": In(TrapCause),
                "pc": In(p.pc_bits),
                "br": In(p.width),
                "backward": In(1),
                "counters": In(COUNTER).array(4),
                "window": Out(Window()),
                "settings": Out(Settings(p)),
                # of a core of several threads
                **({"selected": Out(range(p.lanes)), "issued": In(COUNTER).array(2)} if several else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus, p, dma = self.bus, self.parameters, self.dma
        # Words are being copied; without direct memory access there is no such signal, and no logic for it.
        copying = [dma.busy] if dma else []
        lanes, turns = range(p.lanes), p.core == BARREL
        running, left = Signal(p.lanes), [Signal(64, name=f"left{i}") for i in lanes if not turns]
        halted, trapped, causes = Signal(p.lanes), Signal(p.lanes), [Signal(TrapCause, name=f"cause{i}") for i in lanes]
        #: the lane that the host reads, the lanes that receive commands, and the lanes of the last run
        lane, commanded, launched_lanes = self.lane, Signal(p.lanes), Signal(p.lanes)
        seen: Any = lane.index if p.lanes > 1 else Const(0, 0)
        steps, status, busy = Signal(64, init=UNLIMITED), Signal(HostRegister.STATUS.layout(p.dma)), self.busy
        run: Value = running
        if p.microarchitecture.overlapped:
            # Instructions may begin in consecutive cycles, so the last one must stop the run at once.
            last = Signal()
            m.d.sync += last.eq(left[0] == Mux(self.begins, 2, 1))
            run = running & ~(self.begins & last)
        zeroes = _Zeroes(m, self)
        pending, enabled = self.pending, self.enabled
        m.d.comb += [
            self.run.eq(run),
            busy.eq(reduce(or_, copying, running.any() | ~self.idle | self.zeroing)),
            self.interrupt.eq((pending.as_value() & enabled.as_value()).any()),
            status.busy.eq(busy),
            status.zeroing.eq(self.zeroing),
            status.interrupt.eq(self.interrupt),
            status.backward.eq(self.backward),
        ]
        m.d.comb += [
            status.halted.eq(Array(halted)[seen]),
            status.trapped.eq(Array(trapped)[seen]),
            status.trap.eq(Array(causes)[seen]),
            commanded.eq(Mux(lane.all, ~0, 1 << seen)),
        ]
        limits = _Limits(m, self, running) if turns else None
        for i in lanes:
            if limits is None:
                with m.If(self.begins[i]):
                    m.d.sync += left[i].eq(left[i] - 1)
                    with m.If(left[i] == 1):
                        m.d.sync += running[i].eq(0)
            with m.If(self.halts[i] | self.traps[i]):
                m.d.sync += [
                    running[i].eq(0),
                    halted[i].eq(self.halts[i]),
                    trapped[i].eq(self.traps[i]),
                    causes[i].eq(self.trap),
                ]

        # ------------------------------------------------ events: a new one is not cleared with the old ones
        launched, cleared = Signal(), Signal.like(pending)
        m.d.sync += pending.eq(pending.as_value() & ~cleared.as_value())
        with m.If(launched & ~running.any() & self.idle):
            m.d.sync += launched.eq(0)
            with m.If((halted | ~launched_lanes).all()):
                m.d.sync += pending.halted.eq(1)
            with m.Elif((trapped & launched_lanes).any()):
                m.d.sync += pending.trapped.eq(1)
            with m.Else():
                m.d.sync += pending.stopped.eq(1)
        with m.If(zeroes.done):
            m.d.sync += pending.zeroed.eq(1)
        if dma:
            m.submodules.dma = dma
            connect(m, dma.memory, flipped(self.memory))
            m.d.comb += [status.copying.eq(dma.busy), status.copy_failed.eq(dma.failed)]
            with m.If(dma.done):
                m.d.sync += pending.copied.eq(1)
            with m.If(dma.fails):
                m.d.sync += pending.copy_failed.eq(1)

        # ------------------------------------------------ address decoding
        addressed, number, high = Signal(4), Signal(25), Signal()
        slot, pointer = Signal(HostRegister), Signal(POINTER)
        m.d.comb += [Cat(high, number, addressed).eq(bus.adr), slot.eq(number)]
        # The slot STREAM holds the word at the pointer. A copy reads and writes the same words.
        area, index, exists, streams = Signal(4), Signal(25), Signal(), Signal()
        m.d.comb += [
            streams.eq((addressed == Area.CONTROL.value) & (number == HostRegister.STREAM.value)),
            area.eq(Mux(reduce(or_, copying, streams), pointer.area, addressed)),
            index.eq(Mux(reduce(or_, copying, streams), pointer.index, number)),
        ]
        slots = sum(p.dma or not slot.dma for slot in HostRegister)
        sizes = {
            Area.CONTROL: slots, Area.REGISTERS: REGISTERS, Area.REGISTER_COTANGENTS: REGISTERS,
            Area.DATA: p.data_words, Area.DATA_COTANGENTS: p.data_words, Area.CODE: p.code_words,
        }  # fmt: skip
        # Both places are compared before it is known which counts.
        addresses, points = Signal(), Signal()
        for exists_there, place_area, place in ((addresses, addressed, number), (points, pointer.area, pointer.index)):
            with m.Switch(place_area):
                for which, size in sizes.items():
                    if exists_there is addresses or which is not Area.CONTROL:
                        with m.Case(which.value):
                            m.d.comb += exists_there.eq(_below(place, size))
        m.d.comb += exists.eq(Mux(streams, points, addresses))
        in_window = Mux(streams, pointer.area != Area.CONTROL.value, addressed != Area.CONTROL.value)
        if dma:
            # While words are copied, a host reaches slots only.
            with m.If(dma.busy):
                m.d.comb += exists.eq((addressed == Area.CONTROL.value) & addresses & ~streams)

        # ------------------------------------------------ reads and writes
        told, kept, waiting = Signal(64), Signal(_HALF), self.waiting
        here = bus.adr[1:]
        kept_is_this, waits_for_this = kept.valid & (kept.slot == here), waiting.valid & (waiting.slot == here)
        commands = Signal(HostRegister.CONTROL.layout(p.dma))
        m.d.comb += commands.eq(bus.dat_w)
        runs, zero = commands.run | commands.step, Cat(commands[name] for name in _ZEROED)
        allowed = Signal()
        with m.If(~exists):
            m.d.comb += allowed.eq(0)
        with m.Elif(high & ~bus.we):
            m.d.comb += allowed.eq(kept_is_this & ~(in_window & busy))
        with m.Elif(in_window):
            m.d.comb += allowed.eq(~busy & (bus.sel.all() | ~bus.we))
        with m.Elif(~bus.we):
            m.d.comb += allowed.eq(1)
            if turns:
                with m.Switch(slot), m.Case(*_OF_THREAD):
                    m.d.comb += allowed.eq(~busy)
        with m.Elif(slot == HostRegister.CONTROL):
            others = (bus.dat_w & ~HostRegister.CONTROL.field("stop").mask).any()
            m.d.comb += allowed.eq(
                bus.sel.all() & ~(busy & others) & (bus.dat_w >> len(commands.as_value()) == 0)
                & ~(commands.run & commands.step) & ~(runs & zero.any())
            )  # fmt: skip
        with m.Else():
            fixed, free = Signal(), Signal()
            with m.Switch(slot):
                with m.Case(*_FIXED):
                    m.d.comb += fixed.eq(1)
                with m.Case(*_ALWAYS):
                    m.d.comb += free.eq(1)
            m.d.comb += allowed.eq(bus.sel.all() & (~busy | free) & ~fixed)

        if dma:
            copies = Cat(commands[name] for name in _COPIES)
            refused, fits = Signal(), Signal()
            with m.Switch(pointer.area):
                for which, size in sizes.items():
                    if which is not Area.CONTROL:
                        with m.Case(which.value):
                            m.d.comb += fits.eq(pointer.index + dma.length <= size)
            with m.If(bus.we & ~high & (addressed == Area.CONTROL.value)):
                with m.If(slot == HostRegister.CONTROL):
                    m.d.comb += refused.eq(copies.any() & (copies.all() | runs | zero.any() | ~fits))
                with m.If(slot == HostRegister.DMA_ADDRESS):
                    m.d.comb += refused.eq(bus.dat_w[:2].any())
            with m.If(refused):
                m.d.comb += allowed.eq(0)

        totals = self.issued if turns else self.counters
        answers = {
            HostRegister.IDENTITY: self._identity(), HostRegister.STATUS: status,
            HostRegister.MODES: Cat(self.modes.differentiate, self.modes.overflow, self.modes.strict),
            HostRegister.PC: self.pc.as_signed(), HostRegister.BR: self.br.as_signed(), HostRegister.DIRECTION: self.backward,
            HostRegister.CODE_SIZE: self.code_size, HostRegister.DATA_SIZE: self.data_size, HostRegister.STEPS: steps,
            HostRegister.CYCLES: self.counters[0], HostRegister.RETIRED: self.counters[1],
            HostRegister.TOGGLED: self.counters[2], HostRegister.ERASED: self.counters[3],
            HostRegister.REGISTER_SIZE: self.register_size, HostRegister.INTERRUPT_ENABLE: enabled,
            HostRegister.INTERRUPT_PENDING: pending, HostRegister.POINTER: pointer, HostRegister.LANE: lane,
            HostRegister.RUNNING_LANES: running, HostRegister.HALTED_LANES: halted, HostRegister.TRAPPED_LANES: trapped,
            HostRegister.ISSUED_CYCLES: totals[0], HostRegister.ISSUED: totals[1],
        }  # fmt: skip
        if dma:
            answers |= {HostRegister.DMA_ADDRESS: Cat(Const(0, 2), dma.address), HostRegister.DMA_LENGTH: dma.length}
        with m.Switch(slot if self.decoded is None else self.decoded.slot):
            for asked_for, answer in answers.items():
                with m.Case(asked_for):
                    m.d.comb += told.eq(answer)

        # ------------------------------------------------ transfers
        window, moves = self.window, Signal()
        begins = bus.cyc & bus.stb & ~bus.ack & ~bus.err
        waited, decides, reads = self.waited, begins, begins
        waits: Value = in_window & ~waited[-1]
        if self.goes_on is not None:
            # A transfer is decoded when no write acts or goes on with the next thread. So no write makes the core busy
            # between this cycle and the next one, which decides. A copy or zeros for all threads hold no transfer up.
            begins = begins & ~self.accepted.valid
            decides = begins & waited[0]
            # The state of a thread, with its register here, is as late as a word of a memory.
            waits = ~waited[-1]
            decoded: Any = self.decoded
            m.d.sync += decoded.as_value().eq(Cat(allowed, in_window, streams, waits_for_this, slot, told))
            allowed, in_window, streams = decoded.allowed, decoded.in_window, decoded.streams
            waits_for_this, told = decoded.completes, decoded.told
            reads = decides & allowed
            self._spread(m, slot, commands)
        # A write takes effect in the cycle of its answer, from registers. The address of a read is thus the only path
        # from the bus to the core.
        write, acting = self.accepted, Signal(HostRegister)
        written = Cat(write.low, write.high)
        acts, writes = write.valid & ~write.in_window, write.valid & write.in_window
        m.d.comb += acting.eq(write.index)
        once = acts if self.goes_on is None else acts & ~self.goes_on
        # While words are copied, `area` and `index` are those of the copy.
        m.d.sync += [
            bus.ack.eq(0), bus.err.eq(0), waited.eq(Mux(begins, Cat(1, waited), 0) if turns else 0),
            write.valid.eq(0), write.in_window.eq(in_window), write.area.eq(Mux(streams, pointer.area, addressed)),
            write.index.eq(Mux(streams, pointer.index, number)),
            write.low.eq(bus.dat_w), write.high.eq(Mux(waits_for_this, waiting.word, 0)),
        ]  # fmt: skip
        m.d.comb += [
            window.read_space.eq(area - 1),
            window.read_address.eq(index),
            # A word that does not exist may be read: the answer does not depend on it.
            window.read.eq(reads & in_window & ~busy & ~bus.we & ~high),
            window.write_space.eq(Mux(self.zeroes, zeroes.space, write.area - 1)),
            window.write_address.eq(Mux(self.zeroes, zeroes.place, write.index)),
            window.written.eq(Mux(self.zeroes, 0, written)),
            window.write.eq((self.zeroes | writes) & self.idle),
        ]
        found = Mux(in_window, window.data, told)
        with m.If(decides):
            with m.If(~allowed):
                m.d.sync += bus.err.eq(1)
            with m.Elif(bus.we):
                m.d.sync += bus.ack.eq(1)
                with m.If(high):
                    m.d.sync += [waiting.valid.eq(1), waiting.slot.eq(here), waiting.word.eq(bus.dat_w)]
                with m.Else():
                    m.d.sync += [waiting.valid.eq(0), write.valid.eq(1)]
                    m.d.comb += moves.eq(1)
            with m.Elif(high):
                m.d.sync += [bus.ack.eq(1), bus.dat_r.eq(kept.word)]
            with m.Elif(waits):
                m.d.sync += waited.eq(Cat(1, waited))
            with m.Else():
                m.d.sync += [bus.ack.eq(1), bus.dat_r.eq(found[:32])]
                m.d.sync += [kept.valid.eq(1), kept.slot.eq(here), kept.word.eq(found[32:])]
                m.d.comb += moves.eq(1)
        if turns:
            # The word counts with `ack` only.
            m.d.sync += bus.dat_r.eq(Mux(high, kept.word, found[:32]))
        moves_on: Value = streams & moves
        if dma:
            copied, found_word = (dma.write, window.data) if self.goes_on is None else self._slow_copies(m, dma)
            moves_on = moves_on | dma.read | copied
            m.d.comb += [
                dma.found.eq(found_word), dma.wide.eq((area == Area.CODE.value) | (p.width > 32)), dma.value.eq(written),
            ]  # fmt: skip
            with m.If(dma.busy):
                m.d.comb += [
                    window.written.eq(dma.written), window.read.eq(dma.read), window.write.eq(dma.write),
                    window.write_space.eq(area - 1), window.write_address.eq(index),
                ]  # fmt: skip
        with m.If(moves_on):
            m.d.sync += pointer.index.eq(pointer.index + 1)

        obeyed = Signal(commands.shape())
        m.d.comb += obeyed.eq(write.low)
        self._act(m, acts, acting, obeyed, written)
        if self.goes_on is not None:
            self._each_thread(m, self.goes_on, acts)
        with m.If(once), m.Switch(acting):
            with m.Case(HostRegister.STEPS):
                m.d.sync += steps.eq(written)
            with m.Case(HostRegister.REGISTER_SIZE):
                m.d.sync += self.register_size.eq(_at_most(written, REGISTERS))
            with m.Case(HostRegister.POINTER):
                m.d.sync += pointer.eq(written & _POINTS)
            if p.lanes > 1:
                with m.Case(HostRegister.LANE):
                    m.d.sync += [lane.index.eq(_at_most(written[:8], p.lanes - 1)), lane.all.eq(written[31])]
            with m.Case(HostRegister.INTERRUPT_ENABLE):
                m.d.sync += enabled.eq(written)
            with m.Case(HostRegister.INTERRUPT_CLEAR):
                m.d.comb += cleared.eq(written)
            if dma:
                with m.Case(HostRegister.DMA_ADDRESS):
                    m.d.comb += dma.set_address.eq(1)
                with m.Case(HostRegister.DMA_LENGTH):
                    m.d.comb += dma.set_length.eq(1)
        with m.If(once & (acting == HostRegister.CONTROL)):
            with m.If(Cat(obeyed[name] for name in _STARTING if p.dma or name not in _COPIES).any()):
                m.d.sync += pending.eq(0)
            if dma:
                m.d.comb += [
                    dma.begin.eq(obeyed.copy_in | obeyed.copy_out),
                    dma.out.eq(obeyed.copy_out),
                    dma.stop.eq(obeyed.stop),
                ]
            m.d.comb += zeroes.begin.eq(Cat(obeyed[name] for name in _ZEROED))
            with m.If(obeyed.run | obeyed.step):
                m.d.sync += [
                    launched.eq(1), launched_lanes.eq(commanded),
                    running.eq(Mux(obeyed.step | (steps != 0), commanded, 0)),
                    *(one.eq(Mux(obeyed.step, 1, steps)) for one in left),
                    *(limits.launched(Mux(obeyed.step, 1, steps)) if limits else ()),
                    halted.eq(halted & ~commanded), trapped.eq(trapped & ~commanded),
                    *(cause.eq(Mux(commanded[i], TrapCause.NONE, cause)) for i, cause in enumerate(causes)),
                ]  # fmt: skip
            with m.If(obeyed.stop):
                m.d.sync += running.eq(0)
        return m

    def _spread(self, m: Module, slot: Any, commands: Any) -> None:
        """Whether the write of this cycle is one to each thread."""
        m.d.sync += self.spreads.eq(0)
        with m.Switch(slot):
            with m.Case(HostRegister.CONTROL):
                of_core = ("turn", "forget", "clear", "zero_cotangents")
                m.d.sync += self.spreads.eq(Cat(commands[name] for name in of_core).any())
            with m.Case(HostRegister.PC, HostRegister.BR, HostRegister.DIRECTION):
                m.d.sync += self.spreads.eq(1)

    def _each_thread(self, m: Module, goes_on: Signal, acts: Value) -> None:
        """Let a write or a command for all threads go on for as many cycles as there are threads."""
        last, thread = self.parameters.lanes - 1, self.thread
        each = self.lane.all & ((acts & self.spreads) | self.window.write)
        m.d.comb += [goes_on.eq(each & (thread != last)), self.selected.eq(Mux(each, thread, self.lane.index))]
        with m.If(each):
            m.d.sync += thread.eq(Mux(goes_on, thread + 1, 0))
        # A command that is accepted while words are set to zero waits for the last thread.
        with m.If(goes_on & self.accepted.valid):
            m.d.sync += [self.accepted.eq(self.accepted), self.spreads.eq(self.spreads)]

    def _slow_copies(self, m: Module, dma: DirectMemoryAccess) -> tuple[Value, Value]:
        """A word has been copied to each thread that gets it; and the word that was read, when it is there."""
        assert self.goes_on is not None
        late, word = Signal(THREAD_READ), Signal.like(self.window.data)
        m.d.sync += late.eq(Cat(dma.read, late))
        with m.If(late[-1]):
            m.d.sync += word.eq(self.window.data)
        m.d.comb += [dma.several.eq(self.lane.all), dma.late.eq(late.any()), dma.held.eq(self.goes_on)]
        return dma.write & ~self.goes_on, word

    def _act(self, m: Module, acts: Value, slot: Any, commands: Any, written: Value) -> None:
        """The effect of a write to a slot on the core."""
        s = self.settings
        m.d.comb += s.value.eq(written.as_signed())
        with m.If(acts), m.Switch(slot):
            with m.Case(HostRegister.CONTROL):
                m.d.comb += [
                    s.turn.eq(commands.turn),
                    s.forget.eq(commands.forget | commands.zero_cotangents),
                    s.clear.eq(commands.clear),
                ]
            with m.Case(HostRegister.MODES):
                modes = self.modes
                m.d.sync += Cat(modes.differentiate, modes.overflow, modes.strict).eq(written)
            with m.Case(HostRegister.PC):
                m.d.comb += s.set_pc.eq(1)
            with m.Case(HostRegister.BR):
                m.d.comb += s.set_br.eq(1)
            with m.Case(HostRegister.DIRECTION):
                m.d.comb += [s.set_direction.eq(1), s.value.eq(Mux(written[0], -1, 0))]
            with m.Case(HostRegister.CODE_SIZE):
                m.d.sync += self.code_size.eq(_at_most(written, self.parameters.code_words))
            with m.Case(HostRegister.DATA_SIZE):
                m.d.sync += self.data_size.eq(_at_most(written, self.parameters.data_words))

    def _identity(self) -> Value:
        p = self.parameters
        words = {
            "fraction": p.format.frac, "width": p.width, "magic": MAGIC,
            "more_lanes": p.lanes - 1, "code_room": (p.code_words - 1).bit_length(), "data_room": (p.data_words - 1).bit_length(), "dma": p.dma,
        }  # fmt: skip
        return Const(sum(word << HostRegister.IDENTITY.field(name).low for name, word in words.items()), 64)


class _Limits:
    """The instructions that each thread of the core barrel may still begin.

    One memory: one thread begins in a cycle.
    """

    def __init__(self, m: Module, host: HostInterface, running: Signal) -> None:
        n = host.parameters.lanes
        m.submodules.limits = memory = Memory(MemoryData(shape=64, depth=n, init=[]))
        read, write = memory.read_port(domain="comb"), memory.write_port()
        #: what a thread may begin that has begun nothing in this run, and the threads that have begun nothing
        self.limit, self.fresh = Signal(64), Signal(n)
        begun, thread, left = Signal(n), Signal(range(n)), Signal(64)
        fresh = (begun & self.fresh).any()
        places = [Cat(begun[i] for i in range(n) if i >> bit & 1).any() for bit in range(len(thread))]
        m.d.comb += read.addr.eq(Cat(places))
        later = Signal(n)
        m.d.sync += [
            begun.eq(host.begins), later.eq(begun), thread.eq(Cat(places)), self.fresh.eq(self.fresh & ~begun),
            left.eq(Mux(fresh, self.limit, read.data)),
        ]  # fmt: skip
        m.d.comb += [write.addr.eq(thread), write.data.eq(left - 1), write.en.eq(later.any())]
        with m.If(left == 1):
            m.d.sync += running.eq(running & ~later)

    def launched(self, limit: Any) -> list[Any]:
        """A run begins: each thread may begin `limit` instructions."""
        return [self.limit.eq(limit), self.fresh.eq(-1)]


class _Zeroes:
    """Sets words of the core's memories to zero through its window, one a cycle, area after area."""

    def __init__(self, m: Module, host: HostInterface) -> None:
        self.host = host
        #: one bit for each command: it begins
        self.begin = Signal(len(_ZEROED))
        #: in the last cycle
        self.done = Signal()
        areas = [area for group in _ZEROED.values() for area in group]
        todo, place = Signal(len(areas)), Signal(range(max(REGISTERS, host.parameters.data_words) + 1))
        space, size, inside = Signal(Space), Signal(32), Signal()
        #: where a word is written in this cycle
        self.space, self.place = Signal(Space), Signal.like(place)
        m.d.comb += [host.zeroing.eq(todo.any()), inside.eq(place < size)]
        # A word for all threads of the core barrel is written to one after the other.
        goes_on = host.goes_on
        free: Value = host.idle if goes_on is None else host.idle & ~goes_on
        zeroes: Value = host.zeroing & inside & host.idle
        m.d.sync += [host.zeroes.eq(zeroes if goes_on is None else Mux(goes_on, host.zeroes, zeroes))]
        with m.If(free) if goes_on is not None else nullcontext():
            m.d.sync += [self.space.eq(space), self.place.eq(place)]
        # The areas in their order; each takes a cycle more than it has words.
        with m.Switch(todo):
            for i, area in enumerate(areas):
                with m.Case("-" * (len(areas) - 1 - i) + "1" + "0" * i):
                    in_registers = area in (Area.REGISTERS, Area.REGISTER_COTANGENTS)
                    m.d.comb += [
                        space.eq(area.value - 1),
                        size.eq(host.register_size if in_registers else host.data_size),
                        self.done.eq(~inside & free & (todo == 1 << i)),
                    ]
                    with m.If(free):
                        m.d.sync += place.eq(Mux(inside, place + 1, 0))
                        with m.If(~inside):
                            m.d.sync += todo[i].eq(0)
        with m.If(self.begin.any()):
            n = len(areas) // len(_ZEROED)
            m.d.sync += [place.eq(0), todo.eq(Cat(bit.replicate(n) for bit in self.begin))]


def _below(value: Value, limit: int) -> Value:
    """value < limit, without a carry where the limit is a power of two."""
    bits = (limit - 1).bit_length()
    within = ~value[bits:].any()
    return within if limit == 1 << bits else within & (value[:bits] < limit)


def _at_most(value: Value, limit: int) -> Value:
    return Mux(value > limit, limit, value)
