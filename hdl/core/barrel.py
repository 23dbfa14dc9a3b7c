# amaranth: UnusedElaboratable=no
"""The core barrel: threads take turns on one pipeline, a row of microcode each.

    cycle   0 row number → 1 row memory → 3 operand addresses → 4 files → 7 units → 10 traps, PC, BR → 11 write
    fetch     3 next PC → 4 code memory → 6 dispatch memory, ra → 7 row number → 11 ra + imm, of the next instruction

Thread t has cycle 0 of a turn once in as many cycles as there are threads, at least eight. A turn reads its operands
in cycle 4 and writes its result in cycle 11, before cycle 4 of the next turn: no result is bypassed, and no row
waits. Cycles have numbers from 0 for the turn that a signal belongs to; `adr4` is the address of the turn that is in
its cycle 4.

All state of a thread stands in memories that its number addresses: operands, temporaries and constants in one block
RAM with a copy for each operand, data words in two more, PC, BR, the trap of the first guard that failed, counters in
distributed RAM. So no state of a thread reaches another thread, and a thread takes as long beside others as alone.

The last row of an instruction fetches the next one before it is known whether the instruction traps. After a trap,
the row of the next instruction that is on its way has no effect. A thread that does not go on forgets what it
fetched, and begins with a row that fetches again.

After reset, all threads are idle; PC, BR and all memories keep their contents.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.control_store import columns
from retrograd.hdl.core.divider import RingDivider
from retrograd.hdl.core.ports import WRITTEN, Modes, Retirement, Settings, Space, Window
from retrograd.hdl.core.sequencer import FIELDS
from retrograd.hdl.core.threads import Delays, Thread
from retrograd.hdl.core.units import POINT, ChainedSum, LogicUnit, Multiplier, RomUnit, any_of, balanced_sum, gated
from retrograd.hdl.microcode import ROW_BITS, ROW_ENTRY, RowMicrocode
from retrograd.hdl.microword import THREAD_CONSTANTS, Beside, Read, TrapCause, Writer
from retrograd.hdl.parameters import COUNTER, INSTRUCTION, REGISTERS, Parameters
from retrograd.isa.microarchitecture.micro_operations import MIN_THREADS

#: Regions of a thread's file, of 256 words each: temporaries and constants, words of registers, their cotangents.
_SCRATCH, _WORDS, _COTANGENTS = 0, 1, 2
_REGION_BITS = 2

#: what an operand can be beside words of the file, see `rows`
_READS = {
    "x": (Beside.M, Beside.M_BAR, Beside.BR, Beside.IMM),
    "y": (Beside.M, Beside.M_BAR, Beside.IMM),
    "z": (Beside.M, Beside.M_BAR),
}
#: bits of a block RAM of an ECP5, without parity
_BLOCK_BITS = 1 << 14
#: the first guard of an instruction that failed so far
_FAILED = data.StructLayout({"valid": 1, "order": 4, "trap": TrapCause})


class BarrelCore(wiring.Component):
    """Threads in turns. The ports for PC, BR, DIR, counters and the window are those of the thread `selected`,
    `THREAD_READ` − 1 cycles after it is selected, while the core is idle; DIR at once and always.
    """

    #: the words of the file that a row names
    _ports: tuple[str, ...] = ("x", "y", "z", "target")

    def __init__(self, parameters: Parameters, microcode: RowMicrocode | None = None) -> None:
        self.parameters = p = parameters
        self.microcode = code = microcode or RowMicrocode(parameters)
        self.threads = p.lanes
        constants = [0] * THREAD_CONSTANTS + code.constants
        constants += [0] * ((REGISTERS << _REGION_BITS) - len(constants))
        self.code = MemoryData(shape=INSTRUCTION, depth=p.code_words, init=[])
        self.file = MemoryData(shape=p.width, depth=len(constants) * p.lanes, init=constants * p.lanes)
        #: words of data memory of a thread, a power of two
        self.room = 1 << (p.data_words - 1).bit_length()
        self.logic = LogicUnit(p.width, flags=True)
        self.multiplier = Multiplier(p.width, code.products, code.halves, 3, code.tested)
        self.chained = ChainedSum(p.width)
        self.rom = RomUnit(p.width, code.tables, _BLOCK_BITS)
        self.divider = RingDivider(p.width, code.divisions, code.quotients, p.lanes, flags=True)
        n = p.lanes
        #: the thread whose turn is in cycle k; the same in three cycles, or the selected thread while the core is idle
        self.turn = [Signal(range(n), name=f"t{k}", init=-k % n) for k in range(16)]
        self.seen = {k: Signal(range(n), name=f"seen{k}") for k in (3, 10, 14)}
        #: a trap that is known before execution, in cycle 9, and whether the row fails or ends the program, in cycle 10
        self.early, self.fails = Signal(TrapCause), Signal()
        #: a bit for each thread
        names = "able", "mid", "warm", "dead", "stopped", "backward", "turned", "known"
        self.marks = {name: Signal(n, name=name) for name in names}
        self.words = MemoryData(shape=p.width, depth=self.room * p.lanes, init=[])
        self.cotangents = MemoryData(shape=p.width, depth=self.room * p.lanes, init=[])
        super().__init__(
            {
                #: the threads that may begin instructions; an instruction that has begun completes
                "run": In(p.lanes),
                "modes": In(Modes()),
                #: lengths of the program: instructions, and words of data
                "code_size": In(range(p.code_words + 1), init=p.code_words),
                "data_size": In(range(p.data_words + 1), init=p.data_words),
                #: the thread that the host sees
                "selected": In(range(p.lanes)),
                #: no instruction is on its way; the host's writes and commands have an effect
                "idle": Out(1, init=1),
                #: of each thread: it begins an instruction, halts, traps; what was begun after a trap has no effect
                "begins": Out(p.lanes),
                "halts": Out(p.lanes),
                "traps": Out(p.lanes),
                "trap": Out(TrapCause),
                #: the thread whose instruction the retirement port shows; none: the port is not valid
                "told": Out(p.lanes),
                "retirement": Out(Retirement(p)),
                # of the selected thread
                "pc": Out(p.pc_bits),
                "br": Out(p.width),
                "backward": Out(1),
                "counters": Out(COUNTER).array(4),
                #: of all threads: cycles in which an instruction was on its way, and instructions that retired
                "issued": Out(COUNTER).array(2),
                #: a word that is read is there after `THREAD_READ` cycles; a write takes effect a cycle later
                "window": In(Window()),
                "settings": In(Settings(p)),
            }
        )
        self.lanes = [Thread(self, number) for number in range(p.lanes)]

    def register(self, thread: int, cotangent: bool, number: int) -> tuple[MemoryData, int]:
        """The memory that holds a register's word or its cotangent, and its address there."""
        region = _COTANGENTS if cotangent else _WORDS
        return self.file, (thread << _REGION_BITS | region) * REGISTERS + number

    # ---------------------------------------------------------------- memories of the threads

    def _state(self, m: Module, name: str, shape: Any) -> tuple[Any, Any]:
        """A word for each thread: a read port, whose word is that of this cycle, and a write port."""
        memory = Memory(MemoryData(shape=shape, depth=self.threads, init=[]))
        m.submodules[name] = memory
        return memory.read_port(domain="comb"), memory.write_port()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, width, n = self.parameters, self.parameters.width, self.threads
        self._later = later = Delays()
        self._result11 = Signal(width, name="result11")
        #: of the second slot, in cycle 11: the old word of its target, and its result
        self._second11: dict[str, tuple[Any, Any]] = {}
        m.submodules.delays = later.module
        sync, comb = m.d.sync, m.d.comb
        #: what the host reads from each memory
        self._read: dict[Space, Any] = {}
        self._registered_window(m)

        # ------------------------------------------------ whose turn it is
        turn = self.turn
        sync += turn[0].eq(Mux(turn[0] == n - 1, 0, turn[0] + 1))
        sync += [turn[k].eq(turn[k - 1]) for k in range(1, 16)]
        #: the thread of a cycle; the selected thread while the core is idle
        seen = self.seen
        sync += [of.eq(Mux(self.idle, self.selected, turn[k - 1])) for k, of in seen.items()]

        def own(bits: Any, k: int) -> Any:
            return bits.bit_select(turn[k], 1)

        # ------------------------------------------------ cycle 0: the row
        # mid: a row that is not the first one follows; warm: the next instruction is fetched; dead: a trap
        # or an end came, so the row on its way
        # has no effect; stopped: no instruction begins until the host lets the thread pause
        able, mid, warm, dead, stopped, backward, turned, _ = self.marks.values()
        sync += able.eq(self.run)
        free = ~own(mid, 0) & own(able, 0) & ~own(stopped, 0)
        begins0, fetches0 = Signal(), Signal()
        comb += [begins0.eq(free & own(warm, 0)), fetches0.eq(free & ~own(warm, 0))]
        comb += self.begins.eq(Mux(begins0, 1 << turn[0], 0))
        valid0 = Signal()
        comb += valid0.eq(own(mid, 0) | free)
        valid = [later(valid0, k, reset=True) for k in range(16)]

        def first(k: int) -> Any:
            return later(begins0, k)

        def fetches(k: int) -> Any:
            return later(fetches0, k)

        # The row behind the one of the last turn, or, if that was the last one, the first row of the next instruction
        at1, after1, last7, entry7 = Signal(ROW_BITS), Signal(ROW_BITS), Signal(), Signal(ROW_BITS)
        behind0, last0, entry0 = later(after1, n - 1), later(last7, n - 7), later(entry7, n - 7)
        sync += at1.eq(gated([(~fetches0, Mux(last0, entry0, behind0))]))

        # ------------------------------------------------ cycle 1: the row memory, which is slow; 3: its row
        stored = columns(self.microcode.rows, self.microcode.layout.size)
        bits = (len(stored.words) - 1).bit_length()
        # As many columns as a block RAM has at this depth: else words of several block RAMs would be selected behind
        # them.
        slice_width = max(1, _BLOCK_BITS >> bits)
        delivered = []
        for k, low in enumerate(range(0, stored.width, slice_width)):
            size = min(slice_width, stored.width - low)
            words = [word >> low & (1 << size) - 1 for word in stored.words]
            m.submodules[f"rows{k}"] = rows = Memory(MemoryData(shape=size, depth=1 << bits, init=words))
            row_port = rows.read_port()
            comb += row_port.addr.eq(at1)
            delivered.append(row_port.data)
        found, row3 = Signal(stored.width), Signal(self.microcode.layout)
        sync += found.eq(Cat(delivered))
        comb += Value.cast(row3).eq(Cat(found[c] if c >= 0 else Const(~c, 1) for c in stored.places))
        comb += after1.eq(at1 + 1)
        fields: dict[str, Any] = {}

        def row(name: str, k: int) -> Any:
            """A field of the row in cycle k."""
            if name not in fields:
                of: Any = row3
                for part in name.split("."):
                    of = of[part]
                fields[name] = of
            return later(fields[name], k - 3)

        # ------------------------------------------------ cycle 3: PC and the instruction
        pc_port, pc_write = self._state(m, "pcs", p.pc_bits)
        # With each BR a bit: it is not 0. Where it is 0, PC takes one step.
        br_port, br_write = self._state(m, "brs", data.StructLayout({"word": width, "jumps": 1}))
        comb += [pc_port.addr.eq(seen[3]), br_port.addr.eq(seen[3])]
        pc3, br3, jumps3, back3 = Signal(signed(p.pc_bits)), Signal(width), Signal(), Signal()
        comb += [
            pc3.eq(pc_port.data),
            br3.eq(br_port.data.word),
            jumps3.eq(br_port.data.jumps),
            back3.eq(backward.bit_select(seen[3], 1)),
            self.pc.eq(pc3),
            self.br.eq(br3),
            self.backward.eq(backward.bit_select(self.selected, 1)),
        ]
        jump3, step3, next4 = Signal(signed(width)), Signal(signed(p.pc_bits)), Signal(signed(p.pc_bits))
        comb += jump3.eq(Mux(row("lands", 3) & ~self.idle, 1, Cat(br3[0] | ~jumps3, br3[1:])))
        comb += step3.eq(Mux(fetches(3) & ~self.idle, 0, jump3))
        # The host's command to turn takes a step in the other direction.
        back = Signal()
        command = self._commands(m)
        comb += back.eq(back3 ^ command.turn)
        sync += next4.eq((Cat(back, pc3) + Cat(back, step3 ^ back.replicate(p.pc_bits)))[1:])
        facts = self._fetch(m, row, valid, next4, later(back3, 1), entry7, turn)
        comb += last7.eq(row("last", 7))

        # ------------------------------------------------ cycles 3 to 7: operands
        adr4 = {port: self._address(m, row, port, facts) for port in self._ports}
        address_port, address_write = self._state(m, "addresses", range(self.room))
        data4, base3 = Signal(range(self.room)), Signal(width)
        comb += address_port.addr.eq(turn[3])
        sync += data4.eq(Mux(first(3), base3, address_port.data))
        x, y, z = self._operands(m, row, adr4, data4, facts, br3, turn[4])
        comb += base3.eq(later(self._base(m, row, adr4["target"], turn), n - MIN_THREADS))
        base4, beyond5 = Signal(width), Signal()
        sync += [base4.eq(base3), beyond5.eq(base4 >= self.data_size)]

        # ------------------------------------------------ cycles 7 to 10: units
        result10, fits8, fits10, logic8 = self._units(m, row, valid[7], x, y, z)
        logic10 = later(logic8, 2)
        zero10 = Signal()
        sync += zero10.eq(later(logic8, 1) == 0)

        # ------------------------------------------------ cycle 9: traps that do not depend on products and quotients
        meets9, loses9, cross10 = self._discarded(m, z, turned, command, turn)
        failed9, failed11 = self._guards(m, row, first(9), turn, later(logic8, 1)[0], later(fits8, 1), fits10)
        early9, discards9 = self.early, Signal()
        causes = (
            (TrapCause.CODE, facts["outside"](9)),
            (TrapCause.ILLEGAL, ~facts["legal"](9)),
            (TrapCause.JUMP, row("settled", 9) & later(jumps3, 6)),
            (TrapCause.MEMORY, row("addresses", 9) & later(beyond5, 4)),
        )
        for cause, found in reversed(causes):
            with m.If(first(9) & found):
                comb += early9.eq(cause)
        early_traps9 = first(9) & Cat(found for _, found in causes).any()
        comb += discards9.eq(row("drops", 9) & (meets9 | (loses9 & self.modes.strict)))
        alive10, halts10, ends10, over10 = Signal(), Signal(), Signal(), Signal(3)
        counts9 = row("decides", 9) & (self.modes.overflow | ~row("check.overflow", 9))
        tests9 = row("check.unit", 9) & counts9
        sync += [
            alive10.eq(valid[9] & ~own(dead, 9)),
            halts10.eq(first(9) & row("halts", 9)),
            ends10.eq(early_traps9 | (row("decides", 9) & (failed9 | discards9)) | (first(9) & row("halts", 9))),
            over10.eq(
                Cat(
                    tests9 & (row("writer", 9) != Writer.DIVIDER),
                    tests9 & (row("writer", 9) == Writer.DIVIDER),
                    row("check.chain", 9) & counts9,
                )
            ),
        ]

        # ------------------------------------------------ cycle 10: whether the row has an effect
        ok, ended, retires10 = Signal(), Signal(), Signal()
        over = (over10 & ~Cat(fits10)).any()
        may_retire10 = later(row("last", 9) & ~fetches(9), 1)
        comb += [
            self.fails.eq(ends10 | over),
            ok.eq(alive10 & ~self.fails),
            ended.eq(alive10 & self.fails),
            retires10.eq(ok & may_retire10),
            cross10.eq(ok & row("drops", 10)),
        ]

        # ------------------------------------------------ cycle 11: the cause of a trap
        early11, ended11 = later(early9, 2), later(ended, 1, reset=True)
        halts11 = ended11 & later(halts10, 1) & (early11 == TrapCause.NONE)
        trap11 = Mux(
            early11 != TrapCause.NONE,
            Value.cast(early11),
            Mux(
                failed11.valid,
                Value.cast(failed11.trap),
                Mux(later(meets9, 2), Value.cast(Const(TrapCause.ERASED.value, 4)), Const(TrapCause.STRICT.value, 4)),
            ),
        )
        traps11 = ended11 & ~halts11
        sync += [
            self.halts.eq(Mux(halts11, 1 << turn[11], 0)),
            self.traps.eq(Mux(traps11, 1 << turn[11], 0)),
            self.trap.eq(Mux(traps11, trap11, TrapCause.NONE)),
        ]
        for i in range(n):
            with m.If((turn[10] == i) & ok & row("turns", 10)):
                sync += backward[i].eq(~backward[i])
            with m.If(turn[11] == i):
                sync += dead[i].eq(ended11)
                with m.If(ended11):
                    sync += stopped[i].eq(1)
            with m.If(~able[i]):
                sync += stopped[i].eq(0)
            with m.If(turn[4] == i):
                sync += mid[i].eq(valid[4] & ~row("last", 4) & ~dead[i])
                with m.If(valid[4]):
                    sync += warm[i].eq(row("last", 4) & ~dead[i])
            with m.If((turn[0] == i) & ~mid[i] & (~able[i] | stopped[i])):
                sync += warm[i].eq(0)
            with m.If(command.of == i):
                with m.If(command.direction):
                    sync += backward[i].eq(command.value[-1])
                with m.If(command.turn):
                    sync += [backward[i].eq(~backward[i]), turned[i].eq(~turned[i])]

        # PC, BR and the address of the memory word
        steps, sets = retires10, command.pc | command.turned
        comb += [
            pc_write.en.eq(steps | sets),
            pc_write.addr.eq(Mux(command.pc, command.of, Mux(command.turned, command.turned_of, turn[10]))),
            pc_write.data.eq(Mux(command.pc, command.value, Mux(command.turned, next4, later(next4, 6)))),
            br_write.en.eq((ok & (row("branch", 10) | row("lands", 10))) | command.br),
            br_write.addr.eq(Mux(command.br, command.of, turn[10])),
            br_write.data.word.eq(Mux(command.br, command.value, gated([(~row("lands", 10), logic10)]))),
            br_write.data.jumps.eq(Mux(command.br, command.value[:width] != 0, ~zero10 & ~row("lands", 10))),
            address_write.en.eq(valid[10] & row("addresses", 10)),
            address_write.addr.eq(turn[10]),
            address_write.data.eq(later(data4, 6)),
        ]

        # ------------------------------------------------ cycle 11: the write
        changes = self._writes(m, row, ok, result10, adr4["target"], data4, z, turn)
        self._count(m, row, valid, ok, retires10, begins0, later(loses9, 1), changes, seen, command, turn)
        self._instruction, self._base11 = facts["instruction"], later(base4, 7)
        self._report(m, row, begins0, ok, retires10, traps11, trap11, pc3, next4, br3, back3, backward, z, turn)

        # ------------------------------------------------ the host
        cycles, number = self.issued
        sync += [cycles.eq(cycles + ~self.idle), number.eq(number + later(retires10, 1, reset=True))]
        with m.If(command.clear):
            sync += [cycles.eq(0), number.eq(0)]
        sync += self.idle.eq(~Cat(*valid, mid).any())
        space = Signal(Space)
        sync += space.eq(later(self._window.read_space, 1))
        with m.Switch(space):
            for name, found in self._read.items():
                with m.Case(name):
                    comb += self.window.data.eq(found)
        return m

    def _registered_window(self, m: Module) -> None:
        """The host's access to the memories, and its thread, a cycle later: the bus is far from their block RAMs."""
        names = ("read_space", "write_space", "read_address", "write_address", "write", "written")
        given = [getattr(self.window, name) for name in names]
        # No memory is longer than its address.
        place = max(REGISTERS, self.parameters.code_words, self.room)
        shapes: list[Any] = [Space, Space, range(place), range(place), 1, INSTRUCTION]
        self._window = window = Signal(
            data.StructLayout(dict(zip(names, shapes, strict=True)) | {"of": range(self.threads)})
        )
        m.d.sync += [window[name].eq(port) for name, port in zip(names, given, strict=True)]
        m.d.sync += window.of.eq(self.selected)

    def _commands(self, m: Module) -> Any:
        """The commands of the host, a cycle later. `turned`: the cycle after `turn`, in which the new PC is known."""
        s = self.settings
        names = ("pc", "br", "direction", "turn", "forget", "clear")
        layout = data.StructLayout(
            {
                "of": range(self.threads),
                "value": self.parameters.pc_bits,
                **dict.fromkeys(names, 1),
                "turned": 1,
                "turned_of": range(self.threads),
            }
        )
        self._command = command = Signal(layout)
        given = (s.set_pc, s.set_br, s.set_direction, s.turn, s.forget, s.clear)
        m.d.sync += [command.of.eq(self.selected), command.value.eq(s.value), command.turned.eq(command.turn)]
        m.d.sync += command.turned_of.eq(command.of)
        m.d.sync += [command[name].eq(strobe & self.idle) for name, strobe in zip(names, given, strict=True)]
        return command

    def _fetch(
        self, m: Module, row: Any, valid: Any, next4: Any, back4: Any, first_row7: Any, turn: Any
    ) -> dict[str, Any]:
        """Fetch and decode the next instruction. The number of its first row, in cycle 7. Each fact of an instruction,
        by cycle from 3 on.
        """
        p, later, window = self.parameters, self._later, self._window
        m.submodules.code = code = Memory(self.code)
        read, write = code.read_port(), code.write_port()
        m.d.comb += [
            read.addr.eq(Mux(self.idle, window.read_address, next4)),
            write.addr.eq(window.write_address),
            write.data.eq(window.written),
            write.en.eq(self.idle & window.write & (window.write_space == Space.CODE)),
        ]
        outside5, i6 = Signal(), Signal(FIELDS)
        self._read[Space.CODE] = i6
        m.d.sync += [outside5.eq((next4 < 0) | (next4 >= self.code_size)), i6.eq(read.data)]

        # ------------------------------------------------ cycle 6: the dispatch memory; 8: whether the
        # encoding is legal, see `Decoder`
        m.submodules.dispatch = dispatch = Memory(
            MemoryData(shape=ROW_ENTRY.size, depth=len(self.microcode.dispatch), init=self.microcode.dispatch)
        )
        port, entry7, h = dispatch.read_port(), Signal(ROW_ENTRY), Signal(ROW_ENTRY)
        m.d.comb += [
            port.addr.eq(Cat(i6.op, later(back4, 2), self.modes.differentiate, i6.ra == i6.rb)),
            Value.cast(entry7).eq(port.data),
            first_row7.eq(entry7.row),
        ]
        low = min(p.width, 32) - 1
        plain, opposite = Signal(p.width), Signal(p.width)
        fits, same, used, least = Signal(), Signal(3), Signal(4), Signal()
        m.d.sync += [
            h.eq(entry7),
            plain.eq(i6.imm),
            opposite.eq(-i6.imm),
            same.eq(Cat(i6.rd == i6.ra, i6.rd == i6.rb, i6.ra == i6.rb)),
            used.eq(Cat(i6.rd.any(), i6.ra.any(), i6.rb.any(), i6.imm.any())),
            fits.eq((i6.imm >> low == 0) | (i6.imm >> low == -1)),
            least.eq(i6.imm == -(1 << low)),
        ]
        legal9, imm9 = Signal(), Signal(p.width)
        m.d.sync += [
            legal9.eq(
                h.legal
                & ~(later(used, 1) & ~h.used).any()
                & ~(later(same, 1) & h.distinct).any()
                & later(fits, 1)
                & ~(h.negatable & later(least, 1))
            ),
            imm9.eq(Mux(h.negates, later(opposite, 1), later(plain, 1))),
        ]

        self._ra6, self._imm9 = i6.ra, imm9

        # ------------------------------------------------ cycle 9: stored for the rows of the instruction
        word9 = later(i6, 3)
        told = {
            "rd": word9[48:56],
            "ra": word9[40:48],
            "rb": word9[32:40],
            "imm": imm9,
            "legal": legal9,
            "outside": later(outside5, 4),
            "instruction": word9,
        }
        facts: dict[str, Any] = {}
        for name, word in told.items():
            get, put = self._state(m, f"{name}s", len(word))
            m.d.comb += [put.addr.eq(turn[9]), put.en.eq(valid[9] & row("last", 9)), put.data.eq(word)]
            fact = Signal(len(word), name=f"{name}3")
            m.d.comb += get.addr.eq(turn[2])
            m.d.sync += fact.eq(get.data)
            facts[name] = lambda k, fact=fact: later(fact, k - 3)
        return facts

    def _address(self, m: Module, row: Any, port: str, facts: dict[str, Any]) -> Any:
        """The address of a word in the thread's part of the file, in cycle 4."""
        kind = Value.cast(row(f"{port}.kind", 3))
        region = self._region(kind)
        address = Signal(8 + len(region), name=f"{port}_address".replace(".", "_"))
        with m.Switch(kind[:2]):
            with m.Case(0):
                m.d.sync += address[:8].eq(row(f"{port}.number", 3))
            for field, name in ((Read.D, "rd"), (Read.A, "ra"), (Read.B, "rb")):
                with m.Case(field.value):
                    m.d.sync += address[:8].eq(facts[name](3))
        m.d.sync += address[8:].eq(region)
        return address

    def _region(self, kind: Any) -> Any:
        """The region of a word of this kind in the thread's part of the file."""
        named = kind[:2] != 0
        return Cat(named & ~kind[2], named & kind[2])

    def _operands(
        self, m: Module, row: Any, adr4: dict[str, Any], data4: Any, facts: dict[str, Any], br3: Any, turn4: Any
    ) -> list[Any]:
        """x, y and z in cycle 7."""
        later, window, width = self._later, self._window, self.parameters.width
        m.submodules.file = self._file = file = Memory(self.file, attrs={"ram_style": "block"})
        self._file_write = file.write_port()
        beside = self._beside(m, row, data4, facts, br3, turn4)
        operands = []
        for port in "xyz":
            read = file.read_port()
            address = Cat(adr4[port], turn4)
            if port == "x":
                cotangents = window.read_space == Space.REGISTER_COTANGENTS
                host = Cat(window.read_address[:8], ~cotangents, cotangents, window.of)
                address = Mux(self.idle, host, address)
            m.d.comb += read.addr.eq(address)
            found, operand = Signal(width, name=f"{port}6"), Signal(width, name=port)
            m.d.sync += found.eq(read.data)
            if port == "x":
                self._read[Space.REGISTERS] = self._read[Space.REGISTER_COTANGENTS] = found
            aside = Signal(name=f"{port}_beside")
            m.d.comb += aside.eq(row(f"{port}.kind", 3) == Read.BESIDE)
            pairs = [(~later(aside, 3), found), *self._read_beside(m, row, port, aside, beside)]
            m.d.sync += operand.eq(gated(pairs))
            operands.append(operand)
        return operands

    def _beside(
        self, m: Module, row: Any, data4: Any, facts: dict[str, Any], br3: Any, turn4: Any
    ) -> dict[Beside, Any]:
        """The operands that do not stand in the file, in cycle 6."""
        later, window, width = self._later, self._window, self.parameters.width
        memory6 = {}
        self._data_writes = []
        for name, words, space in (
            (Beside.M, self.words, Space.DATA),
            (Beside.M_BAR, self.cotangents, Space.DATA_COTANGENTS),
        ):
            m.submodules[f"data_{name.name.lower()}"] = memory = Memory(words)
            read = memory.read_port()
            self._data_writes.append(memory.write_port())
            m.d.comb += read.addr.eq(
                Mux(self.idle, Cat(window.read_address[: len(data4)], window.of), Cat(data4, turn4))
            )
            memory6[name] = Signal(width, name=f"{name.name.lower()}6")
            m.d.sync += memory6[name].eq(read.data)
            self._read[space] = memory6[name]
        negates = any_of(
            [
                Value.cast(row(f"{port}.number", 3))[Beside.NEGATED.value] & (row(f"{port}.kind", 3) == Read.BESIDE)
                for port in self._ports
                if port[-1] == "y"
            ]
        )
        imm4 = Signal(width)
        m.d.sync += imm4.eq(
            (Cat(negates, facts["imm"](3) ^ negates.replicate(width)) + Cat(negates, Const(0, width)))[1:]
        )
        return {**memory6, Beside.BR: later(br3, 3), Beside.IMM: later(imm4, 2)}

    def _read_beside(self, m: Module, row: Any, port: str, aside: Any, beside: dict[Beside, Any]) -> list[Any]:
        """The words that an operand may be, with their gates, in cycle 6; `aside`: it is one of them, in cycle 3."""
        pairs, bits = [], Value.cast(row(f"{port}.number", 3))
        for name in _READS[port[-1]]:
            line = Signal(name=f"{port}_{name.name.lower()}".replace(".", "_"))
            negated = bits[Beside.NEGATED.value] if (port[-1], name) == ("y", Beside.IMM) else Const(0)
            m.d.comb += line.eq(aside & (bits[name.value] | negated))
            pairs.append((self._later(line, 3), beside[name]))
        return pairs

    def _base(self, m: Module, row: Any, target4: Any, turn: Any) -> Any:
        """ra + imm of the next instruction, in cycle 11. The row that is written in this cycle may be ra."""
        later, width = self._later, self.parameters.width
        read = self._file.read_port()
        place6 = Cat(self._ra6, Const(_WORDS, _REGION_BITS))
        m.d.comb += read.addr.eq(Cat(place6, turn[6]))
        base8, base11, target10 = Signal(width), Signal(width), later(target4, 6)
        m.d.sync += base8.eq(read.data)
        written10 = row("write", 10) & (target10 == later(place6, 4))
        m.d.comb += base11.eq(Mux(later(written10, 1), self._result11, later(base8, 3)) + later(self._imm9, 2))
        return base11

    def _units(self, m: Module, row: Any, valid7: Any, x: Any, y: Any, z: Any) -> tuple[Any, Any, tuple[Any, ...], Any]:
        """The result in cycle 10; whether the sum fits, in cycle 8; whether the product, the quotient, and the sum of
        z and the product fit, in cycle 10; the logic unit's result in cycle 8.
        """
        width, later = self.parameters.width, self._later
        m.submodules.logic, m.submodules.multiplier = logic, multiplier = self.logic, self.multiplier
        m.submodules.chained = chained = self.chained
        m.submodules.rom, m.submodules.divider = rom, divider = self.rom, self.divider
        logic8, fits8 = Signal(width), Signal()
        product10, product_fits, quotient10, quotient_fits = Signal(width), Signal(), Signal(width), Signal()
        m.d.comb += [
            logic.operation.eq(row("operation", 7)), logic.x.eq(x), logic.y.eq(y), logic.z.eq(z),
            multiplier.start.eq(1), multiplier.x.eq(x), multiplier.y.eq(y),
            multiplier.half.eq(row("parameter", 7)), multiplier.shift.eq(row("shift", 9)),
            rom.table.eq(row("parameter", 7)), rom.x.eq(x),
            divider.start.eq(valid7 & row("divides", 7)), divider.x.eq(x), divider.y.eq(y),
            divider.division.eq(row("parameter", 7)), divider.shift.eq(row("shift", 9)),
        ]  # fmt: skip
        m.d.sync += [
            logic8.eq(logic.result), fits8.eq(logic.fits),
            product10.eq(multiplier.result), product_fits.eq(multiplier.fits),
            quotient10.eq(divider.result), quotient_fits.eq(divider.fits),
        ]  # fmt: skip
        addend10 = Signal(width)
        m.d.sync += addend10.eq(gated([(row("chain", 9), later(z, 2))]))
        m.d.comb += [
            chained.chain.eq(1), chained.subtract.eq(row("difference", 10)),
            chained.x.eq(addend10), chained.product.eq(product10),
        ]  # fmt: skip
        lines = {}
        for writer in (Writer.MULTIPLIER, Writer.ROM, Writer.DIVIDER):
            lines[writer] = Signal(name=f"writes_{writer.name.lower()}")
            m.d.sync += lines[writer].eq(row("writer", 9) == writer)
        logic10 = later(logic8, 2)
        self._results10 = {
            Writer.MULTIPLIER: chained.result, Writer.ROM: later(rom.result, 2), Writer.DIVIDER: quotient10,
        }  # fmt: skip
        result = Signal(width)
        # The logic unit needs no gate: its result is 0 where another unit writes.
        m.d.comb += result.eq(
            any_of(
                [
                    logic10,
                    *(gated([(lines[writer], word)]) for writer, word in self._results10.items()),
                ]
            )
        )
        return result, fits8, (product_fits, quotient_fits, chained.fits), logic8

    def _guards(
        self,
        m: Module,
        row: Any,
        first9: Any,
        turn: Any,
        holds9: Any,
        fits9: Any,
        fits10: tuple[Any, ...],
    ) -> tuple[Any, Any]:
        """Whether a guard failed in this row of the instruction or before, in cycle 9, without a product or quotient
        of this row; and the first guard that failed, in cycle 11."""
        later, overflow, strict = self._later, self.modes.overflow, self.modes.strict
        product_fits, quotient_fits, chain_fits = fits10
        get, put = self._state(m, "failed", _FAILED)
        held9, now9, held10, now10, merged11 = (
            Signal(_FAILED, name=name) for name in ("held9", "now9", "held10", "now10", "merged11")
        )
        m.d.comb += [get.addr.eq(turn[9]), held9.eq(get.data)]
        with m.If(first9):
            m.d.comb += [
                held9.valid.eq(
                    row("forbidden.valid", 9)
                    & (overflow | ~row("forbidden.overflow", 9))
                    & (strict | ~row("forbidden.strict", 9))
                ),
                held9.order.eq(row("forbidden.order", 9)),
                held9.trap.eq(row("forbidden.trap", 9)),
            ]
        fails = (row("check.result", 9) & ~holds9) | (row("check.zero", 9) & holds9) | (row("check.sum", 9) & ~fits9)
        counts9 = overflow | ~row("check.overflow", 9)
        m.d.comb += [
            now9.valid.eq(fails & counts9),
            now9.order.eq(row("check.order", 9)),
            now9.trap.eq(row("check.trap", 9)),
        ]
        self._second_guard(m, row, now9, fails & counts9)

        # Of two guards with the same order, the held one counts: it may be a trap that is known before execution.
        def merged(held: Any, now: Any) -> Any:
            return Mux(now.valid & (~held.valid | (now.order < held.order)), Value.cast(now), Value.cast(held))

        divides = row("writer", 10) == Writer.DIVIDER
        m.d.sync += [held10.eq(merged(held9, now9)), merged11.eq(merged(held10, now10))]
        m.d.comb += [
            now10.valid.eq(
                later(counts9, 1)
                & (
                    (row("check.unit", 10) & ~Mux(divides, quotient_fits, product_fits))
                    | (row("check.chain", 10) & ~chain_fits)
                )
            ),
            now10.order.eq(row("check.order", 10)),
            now10.trap.eq(row("check.trap", 10)),
            put.addr.eq(turn[11]),
            put.data.eq(merged11),
            put.en.eq(1),
        ]
        return held9.valid | now9.valid, merged11

    def _second_guard(self, m: Module, row: Any, now9: Any, fails9: Any) -> None:
        """Let a guard of the second slot take the place of the guard that may fail in the first one."""

    def _discarded(self, m: Module, z: Any, turned: Any, command: Any, turn: Any) -> tuple[Any, Any, Any]:
        """As `DiscardedCotangents`, for each thread: whether the run meets the last point at which a cotangent was
        lost, and whether z, a cotangent that is discarded, is not 0, in cycle 9; and the signal, still to be
        driven, that the point is crossed, in cycle 10."""
        n, later = self.threads, self._later
        layout = data.StructLayout({"crossed": POINT, "lost": POINT, "turned": 1})
        get, put = self._state(m, "points", layout)
        at8, at10, known = Signal(layout), Signal(layout), self.marks["known"]
        m.d.comb += get.addr.eq(turn[7])
        m.d.sync += at8.eq(get.data)
        turned8, may_meet9 = Signal(), Signal()
        point8, beyond8 = Signal(POINT), Signal(POINT)
        m.d.comb += [point8.eq(at8.crossed - turned8), beyond8.eq(Mux(turned8, point8, at8.crossed + 1))]
        meets, loses, cross, some8 = Signal(), Signal(), Signal(), Signal()
        m.d.sync += [
            turned8.eq(turned.bit_select(turn[7], 1)),
            may_meet9.eq(known.bit_select(turn[8], 1) & (at8.turned != turned8)),
            some8.eq(z != 0),
            loses.eq(some8),
        ]
        at9 = Signal(layout)
        m.d.comb += [at9.eq(later(at8, 1)), meets.eq(may_meet9 & (at9.lost == later(point8, 1)))]
        loses10, cross11, loses11, after = later(loses, 1), later(cross, 1, reset=True), later(loses, 2), Signal(layout)
        m.d.comb += [
            at10.eq(later(at8, 2)),
            after.crossed.eq(later(beyond8, 2)),
            after.lost.eq(Mux(loses10, later(point8, 2), at10.lost)),
            after.turned.eq(Mux(loses10, later(turned8, 2), at10.turned)),
            put.addr.eq(turn[11]),
            put.en.eq(cross11),
            put.data.eq(later(after, 1)),
        ]
        for i in range(n):
            with m.If(cross11 & loses11 & (turn[11] == i)):
                m.d.sync += known[i].eq(1)
            with m.If(command.forget & (command.of == i)):
                m.d.sync += known[i].eq(0)
        return meets, loses, cross

    def _writes(self, m: Module, row: Any, ok: Any, result10: Any, target4: Any, data4: Any, z: Any, turn: Any) -> Any:
        """Write the result, in cycle 11. The bits that change in registers and memory."""
        later, window, idle = self._later, self._window, self.idle
        result, writes, stores = self._result11, Signal(), Signal(2)
        changes = Signal.like(result10)
        names = Signal()
        m.d.sync += [
            result.eq(result10),
            writes.eq(ok & row("write", 10)),
            stores.eq(Cat(ok & row("memory", 10), ok & row("memory_cotangent", 10))),
            names.eq(ok & row("write", 10) & (row("target.kind", 10) != Read.FILE)),
        ]
        m.d.comb += changes.eq(gated([(names | stores.any(), result ^ later(z, 4))]))
        put = self._file_write
        cotangents = window.write_space == Space.REGISTER_COTANGENTS
        registers = window.write & (cotangents | (window.write_space == Space.REGISTERS))
        m.d.comb += [
            put.data.eq(Mux(idle, window.written, result)),
            put.addr.eq(
                Mux(
                    idle,
                    Cat(window.write_address[:8], ~cotangents, cotangents, window.of),
                    Cat(later(target4, 7), turn[11]),
                )
            ),
            put.en.eq(Mux(idle, registers, writes)),
        ]
        self._write_data(m, stores, data4, turn)
        return changes

    def _write_data(self, m: Module, stores: Any, data4: Any, turn: Any) -> None:
        """Write the result into data memory, or into its cotangents, in cycle 11."""
        later, window, idle = self._later, self._window, self.idle
        spaces = (Space.DATA, Space.DATA_COTANGENTS)
        for port, line, space in zip(self._data_writes, stores, spaces, strict=True):
            m.d.comb += [
                port.data.eq(Mux(idle, window.written, self._result11)),
                port.addr.eq(
                    Mux(idle, Cat(window.write_address[: len(data4)], window.of), Cat(later(data4, 7), turn[11]))
                ),
                port.en.eq(Mux(idle, window.write & (window.write_space == space), line)),
            ]

    def _count(
        self, m: Module, row: Any, valid: Any, ok: Any, retires: Any, begins0: Any, loses: Any, changes: Any, seen: dict[int, Any],
        command: Any, turn: Any,
    ) -> None:  # fmt: skip
        """The counters of each thread: cycles and number of its instructions, bits toggled and erased."""
        later, width = self._later, self.parameters.width
        # Turns of the instruction so far
        get, put = self._state(m, "elapsed", 10)
        elapsed = Signal(10)
        m.d.comb += [
            elapsed.eq(Mux(later(begins0, 10), 1, get.data + 1)),
            get.addr.eq(turn[10]),
            put.addr.eq(turn[10]),
            put.data.eq(elapsed),
            put.en.eq(1),
        ]
        retires11, erases = later(retires, 1, reset=True), Signal(range(3))
        m.d.sync += erases.eq(Mux(ok, (row("decides", 10) & row("erases", 10)) + (row("drops", 10) & loses), 0))
        # Population count: the word, sums of eight bits, the total
        word12, parts, ones = Signal(len(changes)), [], Signal(range(len(changes) + 1))
        m.d.sync += word12.eq(changes)
        for at in range(0, len(changes), 8):
            part = Signal(4, name=f"ones_{at}")
            m.d.sync += part.eq(balanced_sum([*word12[at : at + 8]]))
            parts.append(part)
        m.d.sync += ones.eq(balanced_sum(parts))
        more = [
            (11, retires11, later(elapsed, 1) * self.threads),
            (11, retires11, Const(1)),
            (15, valid[15], later(ones, 1)),
            (11, valid[11], erases << (width.bit_length() - 1)),
        ]
        for i, (k, counts, step) in enumerate(more):
            read, write = self._state(m, f"counter{i}", COUNTER)
            before, after = Signal(COUNTER, name=f"count{i}"), Signal(COUNTER, name=f"counted{i}")
            m.d.sync += before.eq(read.data)
            m.d.comb += [
                read.addr.eq(seen[k - 1]),
                self.counters[i].eq(before),
                after.eq(before + step),
                write.addr.eq(Mux(command.clear, command.of, turn[k])),
                write.data.eq(Mux(command.clear, 0, after)),
                write.en.eq(Mux(self.idle, command.clear, counts)),
            ]
            if i == 0:
                self._cycles11 = Mux(retires11, after, before)

    def _report(
        self, m: Module, row: Any, begins0: Any, ok: Any, retires: Any, traps11: Any, trap11: Any, pc3: Any, next4: Any, br3: Any,
        back3: Any, backward: Any, z: Any, turn: Any,
    ) -> None:  # fmt: skip
        """The retirement port, in cycle 12. Synthesis removes it where it is not connected."""
        p, later, r = self.parameters, self._later, self.retirement
        width, members = p.width, ("word_before", "cotangent_before", "word_after", "cotangent_after")
        places = {f"{x}_{name}": width for x in WRITTEN for name in members} | {f"{x}_written": 2 for x in WRITTEN}
        layout = data.StructLayout({"br_before": width, "backward_before": 1, "address": width, **places})
        get, put = self._state(m, "records", layout)
        now, told = Signal(layout), Signal(layout)
        m.d.comb += [get.addr.eq(turn[11]), put.addr.eq(turn[11]), put.en.eq(1), put.data.eq(now), now.eq(get.data)]
        with m.If(later(begins0, 11)):
            m.d.comb += [now.eq(0), now.br_before.eq(later(br3, 8)), now.backward_before.eq(later(back3, 8))]
        #: of each slot: the start of its fields' names, whether it writes, the old word, the new word
        old, result = later(z, 4), self._result11
        slots = [("", later(ok, 1) & row("write", 11), old, result)]
        slots += [(of, later(ok, 1) & row(f"{of}write", 11), *words) for of, words in self._second11.items()]
        with m.If(row("addresses", 11)):
            m.d.comb += now.address.eq(self._base11)
        kinds = {"d": (Read.D, Read.D_BAR), "a": (Read.A, Read.A_BAR), "b": (Read.B, Read.B_BAR)}
        for x in WRITTEN:
            for bit, what in enumerate(("word", "cotangent")):
                if x == "m":
                    found = [(later(ok, 1) & row(("memory", "memory_cotangent")[bit], 11), old, result)]
                else:
                    found = [
                        (writes & (row(f"{of}target.kind", 11) == kinds[x][bit]), *words)
                        for of, writes, *words in slots
                    ]
                for line, before, word in found:
                    with m.If(line):
                        m.d.comb += [
                            now[f"{x}_written"][bit].eq(1),
                            now[f"{x}_{what}_before"].eq(before),
                            now[f"{x}_{what}_after"].eq(word),
                        ]
        retires11 = later(retires, 1, reset=True)
        # BR after the instruction, which its last row may have set to 0
        after = Signal(signed(width))
        br_after, br_put = self._state(m, "brs_after", width)
        m.d.comb += [
            br_after.addr.eq(turn[11]), br_put.addr.eq(turn[11]),
            br_put.en.eq(later(begins0, 11) | (later(ok, 1) & (row("branch", 11) | row("lands", 11)))),
            br_put.data.eq(Mux(later(ok, 1) & row("lands", 11), 0, Mux(later(ok, 1) & row("branch", 11), result, later(br3, 8)))),
            after.eq(Mux(br_put.en, br_put.data, br_after.data)),
        ]  # fmt: skip
        m.d.sync += [
            told.eq(now),
            self.told.eq(Mux(retires11 | traps11, 1 << turn[11], 0)),
            r.valid.eq(retires11 | traps11),
            r.trap.eq(Mux(traps11, trap11, 0)),
            r.instruction.eq(self._instruction(11)),
            r.pc_before.eq(later(pc3, 8)),
            r.pc_after.eq(Mux(retires11, later(next4, 7), later(pc3, 8))),
            r.br_after.eq(after),
            r.backward_after.eq(backward.bit_select(turn[11], 1)),
            r.cycles.eq(self._cycles11),
        ]
        m.d.comb += [getattr(r, str(name)).eq(told[str(name)]) for name, _ in layout]
