# amaranth: UnusedElaboratable=no
"""The overlapped core: an instruction is fetched, decoded and read while the previous instruction executes.

    fetch → decode → read [→ access] → execute … → write …

It is a `Lane` with a front end that is ahead of execution, and microwords of several slots. This file has the dependences
between instructions in flight, the operand network of several slots, and the sequencer of the front end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.core import Committing, Lane, Parts, code_window
from retrograd.hdl.core.divider import ScaledDivider
from retrograd.hdl.core.memories import PLACES, PORTS, MemoryPort, RegisterFile
from retrograd.hdl.core.ports import WRITTEN
from retrograd.hdl.core.sequencer import FIELDS, ControlMemory, Decoder, Phase
from retrograd.hdl.core.units import (
    BranchUnit,
    ChainedSum,
    Counters,
    DiscardedCotangents,
    LogicUnit,
    Multiplier,
    OverlappedGuards,
    RomUnit,
    any_of,
    gated,
)
from retrograd.hdl.microcode import FIRST, FORBIDDEN, Microcode, Selections, microcode_for
from retrograd.hdl.microword import (
    ENDING,
    FILE_BITS,
    LATCHES,
    SOURCE,
    WIDE_COMMIT,
    WIDE_PROMPT,
    WIDE_PROMPTS,
    Field,
    Operation,
    Select,
    TrapCause,
    Writer,
    wide_select,
)
from retrograd.hdl.parameters import INSTRUCTION, Parameters
from retrograd.isa.microarchitecture.micro_operations import TEMPORARIES, Unit

# -----------------------------------------------------------------------------
# Dependences between instructions in flight: whether a register field of an earlier instruction names a register that
# a later one reads.
#
# The fields are compared one cycle ahead, as the instructions move on, so the answers stand in registers.

#: the fields that name registers, in the order of the bits of `Dependences`
NAMES = tuple(field.name.lower() for field in Field if field is not Field.NONE)


class Dependences(wiring.Component):
    """`of_running[i][j]`: field i of the executing instruction equals field j of the instruction that is read. `of_writing`: the same
    for the instruction that writes.

    They are undefined while no instruction is read.
    """

    def __init__(self) -> None:
        pairs = Out(len(NAMES)).array(len(NAMES))
        super().__init__(
            {
                #: the instructions that are decoded, read, and that execute
                "decoded": In(FIELDS),
                "read": In(FIELDS),
                "running": In(FIELDS),
                #: the decoded instruction is read in the next cycle; the instruction that is read executes in the
                #: next cycle
                "advance": In(1),
                "launch": In(1),
                "of_running": pairs,
                "of_writing": pairs,
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for i, x in enumerate(NAMES):
            for j, y in enumerate(NAMES):
                ahead, behind = self.read[x] == self.decoded[y], Signal(name=f"{x}_{y}")
                known = self.of_running[i][j]
                m.d.comb += behind.eq(Mux(self.advance, self.running[x] == self.decoded[y], known))
                m.d.sync += [known.eq(Mux(self.launch, ahead, behind)), self.of_writing[i][j].eq(behind)]
        return m


def names(field: Any, pairs: Any, name: str) -> Any:
    """Whether a written field of an earlier instruction names the register that the field `name` reads, by these pairs."""
    column = [row[NAMES.index(name)] for row in pairs]
    return Array([0, *column])[field]


# -----------------------------------------------------------------------------
# The operand network: files of temporaries, the operands of all slots, and those of the write.
#
#     operand ∈ {latches, files, results of the last two cycles, constants}
#
# Each slot writes its results into a file of its own, from which all operands are read.

#: latch of a register's word or cotangent -> whether it is a cotangent; in the order of `HITS`
HITS = (Select.D, Select.A, Select.B, Select.D_BAR, Select.A_BAR, Select.B_BAR)


class _Source(NamedTuple):
    """An operand of the next cycle: a ready word or zero, words of files or zero, and for each slot the line of its result of this cycle."""

    word: Any
    files: Any
    late: list[Any]


class OperandNetwork(wiring.Component):
    """Operands and their selections stand in registers, so a selection must arrive one cycle before its operand.

    The first microword of an instruction is selected in the cycle before it executes, in which the instruction before may select
    the words that it writes. These go through ports of their own. A word that is being written when the next instruction begins
    takes the place of the word that was read.

    An operand has gates only for the words that the microcode selects for it. The word of a file needs no gate: if it
    is not selected, zero is read. It arrives late in the cycle, so it has a register separate from the other words.

    Raises ValueError for more constants than the files have room for.
    """

    def __init__(
        self,
        width: int,
        slots: int,
        constants: Sequence[int],
        prompts: Sequence[int],
        selections: Mapping[str, Selections],
    ) -> None:
        """`selections`: port and slot, such as "x0" -> the selections of this operand."""
        if len(constants) > (1 << FILE_BITS) - TEMPORARIES or len(prompts) > WIDE_PROMPTS:
            raise ValueError(f"{len(constants)} constants do not fit")
        self.width = width
        self.slots = slots
        self.prompts = tuple(prompts)
        self.selections = selections
        self._files = {self._number(Select.FILE, slot) for slot in range(slots)}
        inits = [[*[0] * TEMPORARIES, *constants], *[[0] * TEMPORARIES] * (slots - 1)]
        # The upper half of a file is zero.
        depths = [2 << FILE_BITS, *[2 * TEMPORARIES] * (slots - 1)]
        self.files = [MemoryData(shape=width, depth=d, init=init) for d, init in zip(depths, inits, strict=True)]
        super().__init__(
            {
                #: selections of the first microword, a line for each; and of the microword after the next
                **{f"{port}{k}_first": In(FIRST) for k in range(slots) for port in PORTS},
                **{f"{port}{k}_source": In(SOURCE) for k in range(slots) for port in PORTS},
                #: the next microword is no other than the first of an instruction
                "fresh": In(1),
                #: the operands of this microword
                **{f"{port}{k}": Out(width) for k in range(slots) for port in PORTS},
                #: the words that this cycle writes: the operands of the first slot in a row that writes
                **{f"{port}_written": Out(width) for port in PORTS},
                #: the latches, by number: of the instruction that executes, and of the instruction that begins, if any
                "latches": In(width).array(LATCHES),
                "entering": In(width).array(LATCHES),
                #: when an instruction begins: the latches that the next cycle's write replaces, in the order of HITS
                "hits": In(len(HITS)),
                #: the results of this cycle, and the temporaries that they are written to
                **{f"result{k}": In(width) for k in range(slots)},
                **{f"temporary{k}": In(range(TEMPORARIES)) for k in range(slots)},
                **{f"write{k}": In(1) for k in range(slots)},
                #: the results of the previous cycle
                **{f"last{k}": Out(width) for k in range(slots)},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        banks, earlier = [], {}
        for k, words in enumerate(self.files):
            # Block memory: a file has a copy for each operand.
            m.submodules[f"file{k}"] = memory = Memory(words, attrs={"ram_style": "block"})
            # A result is written one cycle later: from a register, since the copies are far apart.
            write, last = memory.write_port(), getattr(self, f"last{k}")
            temporary = getattr(self, f"temporary{k}")
            earlier[k], place = Signal.like(last, name=f"earlier{k}"), Signal.like(temporary, name=f"place{k}")
            m.d.comb += [write.data.eq(last), write.addr.eq(place)]
            m.d.sync += [
                last.eq(getattr(self, f"result{k}")),
                earlier[k].eq(last),
                place.eq(temporary),
                write.en.eq(getattr(self, f"write{k}")),
            ]
            banks.append(memory)
        told, words = {}, {}
        for port in self.selections:
            told[port], words[port] = self._lines(m, port, banks, earlier)
        #: x, y and z of the next write
        writes: dict[str, _Source] = {}
        for name in PORTS:
            lines, known, used = told[f"{name}0"], words[f"{name}0"], self.selections[f"{name}0"].written
            ready = gated((lines[i], known[i]) for i in sorted(used) if i in known and i not in self._files)
            files = any_of([known[i] for i in sorted(used & self._files)] or [Const(0)])
            writes[name] = _Source(ready, files, self._late(lines, used))
            m.d.comb += getattr(self, f"{name}_written").eq(self._operand(m, f"{name}_writing", writes[name]))
        for port in self.selections:
            source = self._next(port, told[port], words[port], writes)
            m.d.comb += getattr(self, port).eq(self._operand(m, port, source))
        return m

    def _lines(
        self, m: Module, port: str, banks: Sequence[Memory], earlier: Mapping[int, Signal]
    ) -> tuple[dict[int, Signal], dict[int, Any]]:
        """A line for each selection in rows after the first row; and the words of the selections, except results of this cycle."""
        use, source = self.selections[port], getattr(self, f"{port}_source")
        words: dict[int, Any] = dict(enumerate(self.latches))
        files = dict(zip(sorted(self._files), banks, strict=True))
        for slot in range(self.slots):
            words[self._number(Select.PREVIOUS, slot)] = getattr(self, f"last{slot}")
            words[self._number(Select.EARLIER, slot)] = earlier[slot]
        used = sorted(use.later | use.written)
        told: dict[int, Any] = {}
        for number in used:
            line = _is(source.select, number, used)
            told[number] = Signal(name=f"{port}_told_{number}")
            m.d.sync += told[number].eq(line)
            if number in files:
                read = files[number].read_port()
                m.d.comb += read.addr.eq(Cat(source.ahead[: len(read.addr) - 1], ~line))
                told[number], words[number] = Const(1), read.data
        return told, words

    def _number(self, select: Select, slot: int) -> int:
        return wide_select(select, slot, self.slots)

    def _late(self, lines: Mapping[int, Any], used: Collection[int]) -> list[Any]:
        """The lines of results of this cycle, by slot."""
        numbers = (self._number(Select.LAST, slot) for slot in range(self.slots))
        return [lines[i] if i in used else Const(0) for i in numbers]

    def _next(
        self, port: str, told: Mapping[int, Signal], words: Mapping[int, Any], writes: Mapping[str, _Source]
    ) -> _Source:
        """The operand of the next cycle."""
        use, fresh = self.selections[port], self.fresh
        first = {i: fresh & getattr(self, f"{port}_first")[i] for i in use.first}
        late = [~fresh & line for line in self._late(told, use.later)]
        # A register that is being written was read too early.
        pairs: list[tuple[Any, Any]] = []
        files = [(~fresh, words[i]) for i in sorted(use.later & self._files)]
        for half, latches in {"x": HITS[:3], "y": HITS[3:]}.items():
            found = {s.value: first[s.value] & self.hits[HITS.index(s)] for s in latches if s.value in use.first}
            if found:
                hit = Cat(found.values()).any()
                first |= {i: first[i] & ~self.hits[HITS.index(Select(i))] for i in found}
                pairs.append((hit, writes[half].word))
                files.append((hit, writes[half].files))
                late = [any_of([line, hit & other]) for line, other in zip(late, writes[half].late, strict=True)]
        for i in sorted((use.later | use.first) - self._files):
            if i not in use.first:
                if i in words:
                    pairs.append((~fresh & told[i], words[i]))
            elif i >= WIDE_PROMPT:
                pairs.append((first[i], Const(self.prompts[i - WIDE_PROMPT], self.width)))
            elif i not in use.later:
                pairs.append((first[i], self.entering[i]))
            else:
                # The multiplexer of the words is one for all operands.
                pairs.append((first[i] | (~fresh & told[i]), Mux(fresh, self.entering[i], self.latches[i])))
        return _Source(gated(pairs), gated(files), late)

    def _operand(self, m: Module, name: str, source: _Source) -> Any:
        """The operand: the registers of the words, which are zero where the operand is a result that arrives too late for them."""
        word, files = Signal(self.width, name=f"{name}_word"), Signal(self.width, name=f"{name}_files")
        late = Signal(self.slots, name=f"{name}_late")
        m.d.sync += [word.eq(source.word), files.eq(source.files), late.eq(Cat(source.late))]
        return any_of([word, files, gated((late[k], getattr(self, f"last{k}")) for k in range(self.slots))])


def _is(selection: Any, number: int, used: Collection[int]) -> Any:
    """Whether the selection, which is zero or a used selection, is the number. It compares only the bits that distinguish the number from
    all other selections."""
    others = {0, *used} - {number}
    for size in range(len(selection) + 1):
        for places in combinations(range(len(selection)), size):
            mask = sum(1 << place for place in places)
            if all((number ^ other) & mask for other in others):
                return Cat(~(selection[place] ^ (number >> place & 1)) for place in places).all()
    raise ValueError(f"selection {number} has no place in {len(selection)} bits")


# -----------------------------------------------------------------------------
# The sequencer: three instructions are on their way to execution while one executes.
#
# The last write of an instruction falls into the first cycle of execution of the next. The memory word of an
# instruction is read again in each cycle in which the instruction waits. The instruction waits longer if its address
# or its word is not known in the
# cycle before it would begin. Cycles are additive
# (docs/reference/timing.md).


class OverlappedSequencer(wiring.Component):
    """`phase` is the phase of the oldest instruction that does not execute yet, or RUN while an instruction executes.

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
                #: the code memory is read: at PC if `restart`, at the next PC if also `leap`, else after the
                #: instruction that is decoded
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
                #: an instruction makes its last write in the next cycle; and the registers that it then writes
                "ending": Out(1),
                "closing": Out(ENDING),
                #: the executing instruction has no more rows, so the operands of the next cycle belong to the next
                #: instruction
                "fresh": Out(1),
                #: the memory is read for the instruction that is read; and: a word that was read in the cycle before is right
                "reads": Out(1),
                "ready": Out(1),
                #: the row of the next cycle; the microword of the next cycle, which may be the first of the next instruction; and that of
                #: this cycle. They are undefined outside of execution.
                "row": Out(microword),
                "next": Out(microword),
                "now": Out(microword),
                #: the changes of state that this cycle commits, and that the next commits; and the changes of this
                #: cycle, also if nothing executes
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
            # It is known late whether an instruction begins. If none begins, the row that was read has no effect.
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
        # In the cycle before an instruction begins, the only possible write is the last write of the previous
        # instruction.
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


# -----------------------------------------------------------------------------
# The core: its parts connected.
#
# Three sets of an instruction's facts follow each other: the facts of the instruction that is read, of the
# instruction that executes (`running`), and, one cycle
# later, of the instruction that writes (`writing`).


#: D, overflow, strict
_MODES = data.StructLayout({"lifted": 1, "overflow": 1, "strict": 1})

#: word or cotangent -> the field of a commit that names its register
_NAMED = {"word": "field", "cotangent": "shadow"}

#: The facts of an instruction that are needed while it executes.
_FACTS = data.StructLayout(
    {
        "instruction": FIELDS,
        "modes": _MODES,
        "turns": 1,
        "erases": 1,
        "redirects": 1,
        "lands": 1,
        "leaps": 1,
        "chooses": 1,
        "waiting": 3,
        "forbidden": FORBIDDEN,
        # the reason why it has no effect: PC outside the code, an illegal encoding, BR ≠ 0, an address outside
        # memory; or it halts
        "outside": 1,
        "illegal": 1,
        "jumping": 1,
        "invalid": 1,
        "halts": 1,
    }
)


def overlapped_parts(p: Parameters, code: Microcode) -> Parts:
    """The parts of an overlapped core, with the units of each slot."""
    width, micro = p.width, p.microarchitecture
    slots = len(micro.slots)
    operands = OperandNetwork(width, slots, code.constants, code.prompts, code.selections)
    return Parts(
        decoder=Decoder(width, code.head),
        registers=RegisterFile(width, transparent=True),
        memory=MemoryPort(width, p.data_words, ahead=True),
        branch=BranchUnit(p, tells=True),
        ledger=DiscardedCotangents(width, chained=True),
        operands=operands,
        rom=RomUnit(width, code.tables),
        logics=[LogicUnit(width, flags=True, lacks=micro.lacking(k)) for k in range(slots)],
        results=[getattr(operands, f"result{k}") for k in range(slots)],
        multipliers={
            k: Multiplier(width, code.products, code.halves, micro.multiplier, code.tested)
            for k, s in enumerate(micro.slots)
            if Unit.MULTIPLIER in s
        },
        dividers={
            k: ScaledDivider(width, code.divisions, code.quotients, micro, roots=k == 0, flags=True)
            for k, s in enumerate(micro.slots)
            if Unit.DIVIDER in s
        },
    )


class OverlappedCore(Lane):
    """A core whose instructions are fetched, decoded and read while others execute. It has the ports of `Core`."""

    def __init__(self, parameters: Parameters, microcode: Microcode | None = None) -> None:
        code = microcode or microcode_for(parameters)
        self.slots = len(parameters.microarchitecture.slots)
        self.code = MemoryData(shape=INSTRUCTION, depth=parameters.code_words, init=[])
        super().__init__(parameters, code, overlapped_parts(parameters, code))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, width = self.parameters, self.parameters.width
        m.submodules.sequencer = sequencer = OverlappedSequencer(self.microcode)
        m.submodules.decoder = decoder = self.decoder
        m.submodules.branch = branch = self.branch
        m.submodules.registers = registers = self.registers
        m.submodules.memory = memory = self.memory
        m.submodules.operands = operands = self.operands
        m.submodules.guards = guards = OverlappedGuards(self.slots)
        m.submodules.ledger = ledger = self.ledger
        m.submodules.counters = counters = Counters(width, waits=True)
        m.submodules.code = code_memory = Memory(self.code)
        fetched = code_memory.read_port()

        phase, head, commit = sequencer.phase, sequencer.head, sequencer.commit
        instruction = Signal(FIELDS)
        m.d.comb += [instruction.eq(fetched.data), self.phase.eq(phase), self.idle.eq(phase == Phase.IDLE)]
        m.d.comb += [self.begins.eq(sequencer.begins), sequencer.run.eq(self.run), branch.size.eq(self.code_size)]

        # ------------------------------------------------ fetch: at PC, or behind the instruction that is decoded
        at, here, behind = Signal(p.pc_bits), Signal(p.pc_bits), Signal(p.pc_bits)
        backward, leap = Signal(), Signal(p.pc_bits)
        given, modes, read_modes = self.modes, Signal(_MODES), Signal(_MODES)
        known = Mux(sequencer.leap, leap, Mux(sequencer.restart, self.pc, behind))
        sets_pc = ~self.idle & sequencer.restart & ~sequencer.leap & commit.first
        m.d.comb += [
            # An instruction that sets PC writes it late in this cycle, or in the next.
            at.eq(Mux(sets_pc, branch.next_pc, Mux(self.idle, self.window.read_address, known))),
            behind.eq(Mux(backward, here - 1, here + 1)),
        ]
        # Whether PC is in the code is known in the cycle of the fetch after a start, and else in the next.
        starts, early, was_inside, inside, read_inside = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.sync += starts.eq(self.idle)
        with m.If(sequencer.fetch):
            m.d.sync += [
                here.eq(at),
                backward.eq(Mux(commit.first, branch.next_backward, branch.backward)),
                modes.eq(Cat(given.differentiate, given.overflow, given.strict)),
                early.eq(starts & sequencer.restart),
                was_inside.eq(branch.inside),
            ]
        ahead = here.as_signed()
        m.d.comb += inside.eq(Mux(early, was_inside, (ahead >= 0) & (ahead < self.code_size)))

        # ------------------------------------------------ decode, read
        read = Signal(FIELDS)
        m.d.comb += [
            decoder.instruction.eq(instruction),
            decoder.backward.eq(branch.backward),
            decoder.lifted.eq(modes.lifted),
            decoder.decode.eq(sequencer.advance),
            decoder.head.eq(head),
            sequencer.opcode.eq(decoder.opcode),
            fetched.addr.eq(at),
            fetched.en.eq(sequencer.fetch),
            # While an instruction waits to begin, its registers are read again and again.
            registers.read.eq(~self.idle),
        ]
        with m.If(sequencer.advance):
            m.d.sync += [read.eq(instruction), read_modes.eq(modes), read_inside.eq(inside)]
        for place, field in zip(PLACES, ("rd", "ra", "rb"), strict=True):
            number = Mux(sequencer.advance, instruction[field], read[field])
            m.d.comb += getattr(registers, f"{place}_number").eq(number)
        code_window(m, self, fetched, code_memory.write_port())
        self.memory_window(m, instruction)

        # ------------------------------------------------ the instruction that is read, that executes, that writes
        entering, running, writing, landing = Signal(_FACTS), Signal(_FACTS), Signal(_FACTS), Signal()
        m.d.comb += [
            # BR is written in the first cycle of execution of the next instruction, which may be its last.
            landing.eq(sequencer.begins & writing.lands),
            self.jumping.eq(head.settled & ~running.lands & ~landing & (branch.br != 0)),
            entering.instruction.eq(read),
            entering.modes.eq(read_modes),
            entering.turns.eq(head.turns),
            entering.erases.eq(head.erases),
            entering.redirects.eq(head.redirects),
            entering.lands.eq(head.lands),
            entering.leaps.eq(head.leaps),
            entering.chooses.eq(head.chooses),
            entering.waiting.eq(head.waiting),
            entering.forbidden.eq(head.forbidden),
            sequencer.redirects.eq(running.redirects),
            sequencer.leaps.eq(running.leaps),
        ]
        # Whether an instruction waits for memory does not depend on whether it is legal, which is known later.
        addressed = (phase == Phase.ACCESS) | sequencer.ready
        dooms = {
            "outside": ~read_inside,
            "illegal": ~decoder.legal,
            "jumping": self.jumping,
            "invalid": head.memory & addressed & ~memory.valid,
            "halts": head.halts,
        }
        m.d.comb += [entering[name].eq(found) for name, found in dooms.items()]
        m.d.comb += [sequencer.accesses.eq(head.memory), sequencer.doomed.eq(Cat(dooms.values()).any())]
        with m.If(sequencer.launch):
            m.d.sync += running.eq(entering)
        with m.If(sequencer.restart):
            m.d.sync += running.lands.eq(0)
        m.d.sync += writing.eq(running)
        m.submodules.dependences = pairs = Dependences()
        m.d.comb += [
            pairs.decoded.eq(instruction),
            pairs.read.eq(read),
            pairs.running.eq(running.instruction),
            pairs.advance.eq(sequencer.advance),
            pairs.launch.eq(sequencer.launch),
        ]
        # The addresses of the next instruction, if the executing instruction jumps and if it does not. With the
        # constant 0 it does not jump.
        read_at, target, beyond, jumps = Signal(p.pc_bits), Signal(p.pc_bits), Signal(p.pc_bits), Signal()
        step = Signal(signed(p.pc_bits))
        m.d.comb += step.eq(decoder.imm.as_signed())
        with m.If(sequencer.advance):
            m.d.sync += read_at.eq(here)
        with m.If(sequencer.launch):
            m.d.sync += [
                target.eq(Mux(branch.backward, read_at - step, read_at + step)),
                beyond.eq(here),
                jumps.eq(decoder.imm != 0),
            ]
        chosen = getattr(operands, f"x{self.microcode.chooser}")[0]
        m.d.comb += leap.eq(Mux(jumps & (chosen | ~running.chooses), target, beyond))
        # Addresses of the words of these instructions. The port has the address of the instruction that is read.
        running_address, stored_at = Signal(width), Signal(width)
        with m.If(sequencer.launch):
            m.d.sync += running_address.eq(memory.address)
        m.d.sync += stored_at.eq(running_address)
        # If the next instruction accesses memory, the executing instruction takes a cycle more or less.
        waits, ahead = sequencer.ending & ~running.redirects & read_inside & head.memory, Signal(signed(2))
        m.d.sync += ahead.eq(Mux(waits, Mux(sequencer.unknown, 1, Mux(sequencer.ready, -1, 0)), 0))

        old = self._latches(m, decoder, sequencer, running, landing, pairs)
        last, fits, units_fit = self._slots(m, sequencer)

        # ------------------------------------------------ guards
        early_trap, ends = Signal(TrapCause), Signal()
        doomed = ~self.idle & sequencer.begins & ~sequencer.abandon
        causes = {
            "outside": TrapCause.CODE,
            "illegal": TrapCause.ILLEGAL,
            "jumping": TrapCause.JUMP,
            "invalid": TrapCause.MEMORY,
        }
        m.d.sync += [early_trap.eq(TrapCause.NONE), ends.eq(0)]
        with m.If(doomed):
            m.d.sync += ends.eq(running.halts & ~Cat(running[name] for name in causes).any())
            for name, cause in reversed(causes.items()):
                with m.If(running[name]):
                    m.d.sync += early_trap.eq(cause)
        m.d.comb += [
            guards.begin.eq(sequencer.begins),
            guards.forbidden.eq(running.forbidden),
            guards.entering_overflow.eq(running.modes.overflow),
            guards.entering_strict.eq(running.modes.strict),
            *(getattr(guards, f"check{k}").eq(self._slot(sequencer.now, k).check) for k in range(self.slots)),
            guards.overflow.eq(writing.modes.overflow),
            guards.fits.eq(fits),
            guards.units_fit.eq(units_fit),
            *(getattr(guards, f"holds{k}").eq(word[0]) for k, word in enumerate(last)),
            ledger.cotangent.eq(operands.latches[Select.D_BAR.value]),
            ledger.turned.eq(branch.turned),
            ledger.strict.eq(writing.modes.strict),
            ledger.forget.eq(self.settings.forget),
        ]
        x, y, z = (getattr(operands, f"{port}_written") for port in PORTS)
        m.d.comb += [
            memory.passing_target.eq(stored_at),
            memory.passing_word.eq(z),
            memory.passing_cotangent.eq(Mux(sequencer.written.memory, old["d"][1], z)),
            memory.passes_word.eq(sequencer.written.memory),
            memory.passes_cotangent.eq(sequencer.written.memory_cotangent),
        ]
        m.d.comb += [counters.waiting.eq(running.waiting), counters.ahead.eq(ahead)]
        self.commit(
            m, sequencer, guards, counters, Committing(
                commit, x, y, z, sequencer.reads, operands.entering[Select.A.value], stored_at, early_trap, ends, sequencer.begins, writing.turns, writing.erases,
                writing.instruction, running.instruction, old,
            ), _destination, _report,
        )  # fmt: skip
        return m

    def _latches(
        self,
        m: Module,
        decoder: Decoder,
        sequencer: OverlappedSequencer,
        running: Any,
        landing: Signal,
        pairs: Dependences,
    ) -> dict[str, tuple[Any, Any]]:
        """The operand latches of the instruction that executes, the words for the instruction that begins, and, by place, the latches of the
        instruction that writes.

        A word that an instruction writes bypasses the register file to the next instruction, in the cycle of the write.
        """
        width, operands, registers, memory = self.parameters.width, self.operands, self.registers, self.memory
        written, fresh, closing = sequencer.written, sequencer.fresh, sequencer.closing
        old: dict[str, Signal] = {}
        hits = []
        for select in HITS:
            place, what = select.name[0].lower(), "cotangent" if select.name.endswith("BAR") else "word"
            field = {"d": "rd", "a": "ra", "b": "rb"}[place]
            passing = getattr(operands, f"{'y' if what == 'cotangent' else 'x'}_written")
            latch, hit, held = (
                Signal(width, name=f"{place}_{what}"),
                Signal(),
                Signal(width, name=f"old_{place}_{what}"),
            )
            stale = written[what] & names(written[_NAMED[what]], pairs.of_writing, field)
            found = Mux(stale, passing, getattr(registers, f"{place}_{what}"))
            kept = Mux(hit, passing, latch)
            m.d.comb += [operands.entering[select.value].eq(found), operands.latches[select.value].eq(kept)]
            # whether the last write is one to this register
            hits.append(names(closing[_NAMED[what]], pairs.of_running, field))
            if select is Select.A:
                m.d.comb += [sequencer.stale.eq(stale), sequencer.unknown.eq(hits[-1])]
            m.d.sync += [hit.eq(fresh & hits[-1]), latch.eq(Mux(fresh, found, kept)), held.eq(kept)]
            old[f"{place}_{what}"] = held
        m.d.comb += [operands.hits.eq(Cat(hits)), operands.fresh.eq(fresh)]
        for select, word in ((Select.IMM, decoder.imm), (Select.NEGATED, decoder.negated)):
            latch = Signal(width, name=select.name.lower())
            with m.If(fresh):
                m.d.sync += latch.eq(word)
            m.d.comb += [operands.entering[select.value].eq(word), operands.latches[select.value].eq(latch)]
        for words, landed in ((operands.entering, running.lands | landing), (operands.latches, landing)):
            m.d.comb += words[Select.BR.value].eq(Mux(landed, 0, self.branch.br))
        for select, what in ((Select.M, "word"), (Select.M_BAR, "cotangent")):
            word, latch = getattr(memory, f"old_{what}"), Signal(width, name=f"m_{what}")
            held = old[f"m_{what}"] = Signal(width, name=f"old_m_{what}")
            m.d.sync += [latch.eq(Mux(fresh, word, latch)), held.eq(latch)]
            m.d.comb += [operands.entering[select.value].eq(word), operands.latches[select.value].eq(latch)]
        return {place: (old[f"{place}_word"], old[f"{place}_cotangent"]) for place in (*PLACES, "m")}

    @staticmethod
    def _slot(word: Any, k: int) -> Any:
        """The fields of a slot in a microword."""
        return word if k == 0 else word[f"slot{k}"]

    def _slots(self, m: Module, sequencer: OverlappedSequencer) -> tuple[list[Any], Any, Any]:
        """The units of each slot, their last results, and whether their sums and their products or quotients fit."""
        operands, head, now, following = self.operands, sequencer.head, sequencer.now, sequencer.next
        m.submodules.rom = rom = self.rom
        fits, units_fit = [], []
        for k, logic in enumerate(self.logics):
            slot, ahead = self._slot(now, k), self._slot(following, k)
            x, y, z = (getattr(operands, f"{port}{k}") for port in PORTS)
            for port in PORTS:
                m.d.comb += getattr(operands, f"{port}{k}_source").eq(ahead[port])
                m.d.comb += getattr(operands, f"{port}{k}_first").eq(head[f"{port}{k or ''}"])
            result = getattr(operands, f"result{k}")
            m.submodules[f"logic{k or ''}"] = logic
            m.d.comb += [logic.operation.eq(slot.operation), logic.x.eq(x), logic.y.eq(y), logic.z.eq(z)]
            m.d.comb += [
                getattr(operands, f"write{k}").eq(slot.write),
                getattr(operands, f"temporary{k}").eq(slot.temporary),
            ]
            # The logic unit needs no gate: its result is 0 where another unit writes. The result of the multiplier
            # arrives last.
            words, product = [logic.result], Const(0)
            sum_fits, unit_fits = logic.fits, Const(1)
            if k == 0:
                m.d.comb += [rom.table.eq(slot.parameter), rom.x.eq(x)]
                words.append(gated([(slot.writer == Writer.ROM, rom.result)]))
            if k in self.multipliers:
                m.submodules[f"multiplier{k or ''}"] = multiplier = self.multipliers[k]
                multiplies = (slot.operation == Operation.MULSHIFT) | (slot.operation == Operation.MULROUND)
                m.d.comb += [multiplier.start.eq(multiplies), multiplier.half.eq(slot.parameter)]
                m.d.comb += [multiplier.x.eq(x), multiplier.y.eq(y), multiplier.shift.eq(slot.shift)]
                m.submodules[f"chained{k or ''}"] = chained = ChainedSum(self.parameters.width)
                m.d.comb += [chained.chain.eq(slot.chain), chained.subtract.eq(slot.difference)]
                m.d.comb += [chained.x.eq(z), chained.product.eq(multiplier.result)]
                sum_fits, unit_fits = Mux(slot.chain, chained.fits, logic.fits), multiplier.fits
                product = gated([(slot.writer == Writer.MULTIPLIER, chained.result)])
            if k in self.dividers:
                m.submodules[f"divider{k or ''}"] = divider = self.dividers[k]
                divides = slot.operation.matches(Operation.DIVSHIFT, Operation.DIVROUND, Operation.SQRTROUND)
                m.d.comb += [divider.start.eq(divides), divider.division.eq(slot.parameter)]
                m.d.comb += [divider.x.eq(x), divider.y.eq(y), divider.shift.eq(slot.shift)]
                unit_fits = Mux(slot.writer == Writer.DIVIDER, divider.fits, unit_fits)
                words.append(gated([(slot.writer == Writer.DIVIDER, divider.result)]))
            m.d.comb += result.eq(any_of(words) | product)
            fits.append(sum_fits)
            units_fit.append(unit_fits)
        return [getattr(operands, f"last{k}") for k in range(self.slots)], Cat(fits), Cat(units_fit)


def _destination(m: Module, lane: Lane, c: Committing) -> tuple[Any, Any, Any]:
    """The number of the register whose word is written, and the word and the cotangent before the writes."""
    numbers = [_number(c.commit[field], c.instruction) for field in _NAMED.values()]
    m.d.comb += lane.registers.shadow.eq(Mux(lane.idle, lane.window.write_address, numbers[1]))
    which = [c.old["d"], *(c.old[place] for place in PLACES)]
    before = [Array(pair[k] for pair in which)[c.commit[field]] for k, field in enumerate(_NAMED.values())]
    return numbers[0], before[0], before[1]


def _number(field: Any, instruction: Any) -> Any:
    """The number of the register that is written."""
    return Array([0, instruction.rd, instruction.ra, instruction.rb])[field]


def _report(m: Module, lane: Lane, c: Committing, writes: Value) -> None:
    """On the retirement port, the state before, and the registers that are written."""
    r, branch, registers, commit = lane.retirement, lane.branch, lane.registers, c.commit
    # An instruction changes PC at its first write. A doomed instruction traps after the last write of its predecessor.
    with m.If(commit.first | lane.traps):
        m.d.sync += [
            r.pc_before.eq(branch.pc), r.br_before.eq(branch.br), r.backward_before.eq(branch.backward),
            r.instruction.eq(Mux(commit.first, c.instruction, c.trapping)),
            r.address.eq(c.target),
            *(getattr(r, f"{place}_written").eq(0) for place in WRITTEN),
        ]  # fmt: skip
        for place, (word, cotangent) in c.old.items():
            m.d.sync += getattr(r, f"{place}_word_before").eq(word)
            m.d.sync += getattr(r, f"{place}_cotangent_before").eq(cotangent)
    for place, field in zip(PLACES, (Field.RD, Field.RA, Field.RB), strict=True):
        for bit, what in enumerate(_NAMED):
            with m.If(commit[what] & (commit[_NAMED[what]] == field) & writes):
                m.d.sync += [
                    getattr(r, f"{place}_written")[bit].eq(1),
                    getattr(r, f"{place}_{what}_after").eq(getattr(registers, what)),
                ]
