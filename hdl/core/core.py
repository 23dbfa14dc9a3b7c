# amaranth: UnusedElaboratable=no
"""The core small: a sequencer with its decoder, and a lane, which is composed of registers, memory port, function units and branch unit.

The host interface sets the core's ports, starts it and stops it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.divider import Divider
from retrograd.hdl.core.memories import MemoryPort, OperandFile, RegisterFile
from retrograd.hdl.core.ports import WRITTEN, Modes, Retirement, Settings, Space, Window
from retrograd.hdl.core.sequencer import FIELDS, Decoder, Phase, Sequencer
from retrograd.hdl.core.units import (
    BranchUnit,
    Counters,
    DiscardedCotangents,
    GuardUnit,
    LogicUnit,
    Multiplier,
    RomUnit,
)
from retrograd.hdl.microcode import Microcode, microcode_for
from retrograd.hdl.microword import Field, Operation, Select, TrapCause, Writer
from retrograd.hdl.parameters import COUNTER, INSTRUCTION, Parameters


class Committing(NamedTuple):
    """The instruction that writes in this cycle, if one does."""

    commit: Any
    #: the words that it writes
    x: Any
    y: Any
    z: Any
    #: memory is read, with ra of the instruction that addresses it; and the address that is written
    reads: Any
    base: Any
    target: Any
    #: a trap before execution, and whether the program ends here; an instruction begins
    early: Any
    ends: Any
    begins: Any
    #: whether the instruction reverses the direction; the words that it erases; its encoding; the encoding of an instruction that traps before execution
    turns: Any
    erases: Any
    instruction: Any
    trapping: Any
    #: place -> word and cotangent before the instruction
    old: dict[str, tuple[Any, Any]]


class Control(NamedTuple):
    """The signals by which a sequencer controls a lane."""

    phase: Any
    #: the last cycle before execution
    launch: Any
    #: the entry of the instruction, the microwords of the next cycle and of this cycle, the changes of state that this cycle commits
    head: Any
    next: Any
    now: Any
    commit: Any
    #: set by the lane: it leaves the instruction, which traps or ends the program
    abandon: Any
    instruction: Any
    #: D, overflow, strict at the fetch of the instruction
    modes: Any


#: the number of the register whose word is written, and its word and cotangent before the write
Destination = Callable[[Module, Any, Committing], tuple[Any, Any, Any]]
#: on the retirement port, the state before and the registers that are written; the last argument is high if the writes take place
Report = Callable[[Module, Any, Committing, Value], None]


@dataclass
class Parts:
    """The parts of a data path. Units stand by slot of the microword; the core small has one slot."""

    decoder: Decoder
    registers: RegisterFile
    memory: MemoryPort
    branch: BranchUnit
    ledger: DiscardedCotangents
    operands: Any
    rom: RomUnit
    logics: list[LogicUnit]
    results: list[Any]
    multipliers: dict[int, Multiplier]
    dividers: dict[int, Any]


def small_parts(p: Parameters, code: Microcode) -> Parts:
    """The parts of the core small."""
    width, operands = p.width, OperandFile(p.width, code.constants, code.prompts)
    return Parts(
        decoder=Decoder(width),
        registers=RegisterFile(width),
        memory=MemoryPort(width, p.data_words),
        branch=BranchUnit(p),
        ledger=DiscardedCotangents(width),
        operands=operands,
        rom=RomUnit(width, code.tables),
        logics=[LogicUnit(width)],
        results=[operands.result],
        multipliers={0: Multiplier(width, code.products, code.halves, p.microarchitecture.multiplier)},
        dividers={0: Divider(width, code.divisions, code.quotients)},
    )


class Lane(wiring.Component):
    """The ports and the parts of the data path of one program, and its writes, which are the same in all cores.

    `data_path` connects the parts of the core small; an overlapped core connects its own.
    """

    def __init__(self, parameters: Parameters, microcode: Microcode, parts: Parts) -> None:
        self.parameters = p = parameters
        self.microcode, self.decoder = microcode, parts.decoder
        self.registers, self.memory, self.branch, self.ledger = (
            parts.registers,
            parts.memory,
            parts.branch,
            parts.ledger,
        )
        self.operands, self.rom, self.logics, self.results = parts.operands, parts.rom, parts.logics, parts.results
        self.multipliers, self.dividers = parts.multipliers, parts.dividers
        self.logic, self.multiplier, self.divider = self.logics[0], self.multipliers[0], self.dividers[0]
        #: the trap that the guards report, at the first write
        self.guarded = Signal(TrapCause)
        #: whether they report one, which is known earlier
        self.fails = Signal()
        #: BR is not 0 although it must be; valid while it is tested
        self.jumping = Signal()
        super().__init__(
            {
                #: begin instructions; an instruction that has begun completes
                "run": In(1),
                "modes": In(Modes()),
                #: lengths of the program: instructions, and words of data
                "code_size": In(range(p.code_words + 1), init=p.code_words),
                "data_size": In(range(p.data_words + 1), init=p.data_words),
                #: phase of the instruction in flight; and high while no instruction is executed
                "phase": Out(Phase),
                "idle": Out(1),
                #: an instruction begins
                "begins": Out(1),
                #: the instruction does not retire: the program ends here, or the instruction traps
                "halts": Out(1),
                "traps": Out(1),
                "trap": Out(TrapCause),
                "pc": Out(p.pc_bits),
                "br": Out(p.width),
                "backward": Out(1),
                "counters": Out(COUNTER).array(4),
                "window": In(Window()),
                "settings": In(Settings(p)),
                "retirement": Out(Retirement(p)),
            }
        )

    def commit(
        self,
        m: Module,
        sequencer: Any,
        guards: Any,
        counters: Any,
        c: Committing,
        destination: Destination,
        report: Report,
    ) -> None:
        """Whether the instruction traps; its writes, which are counted; and the retirement port. `destination` and `report` depend on the core."""
        branch, registers, memory, ledger, commit = self.branch, self.registers, self.memory, self.ledger, c.commit
        late, fails = self.guarded, self.fails
        # Whether there is a trap is known before which trap it is.
        with m.If(commit.first):
            m.d.comb += [
                late.eq(Mux(~guards.fails & commit.drop, ledger.trap, guards.trap)),
                fails.eq(guards.fails | (commit.drop & (ledger.trap != TrapCause.NONE))),
            ]
        m.d.comb += [
            self.trap.eq(Mux(commit.first, late, c.early)),
            self.traps.eq(fails | (~commit.first & (c.early != TrapCause.NONE))),
            self.halts.eq(c.ends),
            sequencer.abandon.eq(self.traps | c.ends),
        ]
        retires = Signal()
        writes = Signal()
        m.d.comb += [
            writes.eq(~fails),
            retires.eq(commit.last & writes),
            branch.prepare.eq(commit.first),
            branch.commit.eq(commit.first & writes),
            branch.jump.eq(commit.branch),
            branch.target.eq(c.z),
            branch.flip.eq(c.turns),
            branch.value.eq(self.settings.value),
            branch.set_pc.eq(self.settings.set_pc),
            branch.set_br.eq(self.settings.set_br),
            branch.set_direction.eq(self.settings.set_direction),
            branch.turn.eq(self.settings.turn),
            memory.size.eq(self.data_size),
            ledger.cross.eq(commit.first & writes & commit.drop),
            self.pc.eq(branch.pc),
            self.br.eq(branch.br),
            self.backward.eq(branch.backward),
        ]
        number, old_word, old_cotangent = destination(m, self, c)
        with m.If(~self.idle):
            m.d.comb += [
                registers.number.eq(number),
                registers.word.eq(c.x),
                registers.cotangent.eq(c.y),
                registers.write_word.eq(commit.word & writes),
                registers.write_cotangent.eq(commit.cotangent & writes),
                memory.read.eq(c.reads),
                memory.base.eq(c.base),
                memory.offset.eq(self.decoder.imm),
                memory.target.eq(c.target),
                memory.word.eq(c.z),
                memory.cotangent.eq(Mux(commit.memory, c.old["d"][1], c.z)),
                memory.write_word.eq(commit.memory & writes),
                memory.write_cotangent.eq(commit.memory_cotangent & writes),
            ]
        pairs = (
            (commit.word, c.x, old_word),
            (commit.cotangent, c.y, old_cotangent),
            (commit.memory, c.z, c.old["m"][0]),
            (commit.memory_cotangent, memory.cotangent, c.old["m"][1]),
        )
        for i, (written, after, before) in enumerate(pairs):
            m.d.comb += counters.changes[i].eq(Mux(written, after ^ before, 0))
        m.d.comb += [
            counters.writes.eq(writes),
            counters.first.eq(c.begins),
            counters.last.eq(retires),
            counters.clear.eq(self.settings.clear),
            counters.erases.eq(Mux(commit.first & writes, c.erases + (commit.drop & ledger.loses), 0)),
            *(
                self.counters[i].eq(count)
                for i, count in enumerate((counters.cycles, counters.retired, counters.toggled, counters.erased))
            ),
        ]
        # The retirement port. Synthesis removes it where it is not connected.
        r = self.retirement
        m.d.sync += [r.valid.eq(retires | self.traps), r.trap.eq(self.trap)]
        m.d.comb += [
            r.pc_after.eq(branch.pc), r.br_after.eq(branch.br), r.backward_after.eq(branch.backward),
            r.cycles.eq(counters.cycles),
        ]  # fmt: skip
        report(m, self, c, writes)
        with m.If((commit.memory | commit.memory_cotangent) & writes):
            m.d.sync += [
                r.m_written.eq(Cat(commit.memory, commit.memory_cotangent)),
                r.m_word_after.eq(memory.word),
                r.m_cotangent_after.eq(memory.cotangent),
            ]

    def memory_window(self, m: Module, instruction: Any) -> None:
        """Addresses of registers and memory: the host's while the core is idle. `instruction`: the word that the code memory delivers."""
        window, registers, memory = self.window, self.registers, self.memory
        space = Signal(Space)
        with m.If(self.idle):
            m.d.sync += space.eq(window.read_space)
            m.d.comb += [
                registers.d_number.eq(window.read_address),
                registers.number.eq(window.write_address),
                registers.word.eq(window.written),
                registers.cotangent.eq(window.written),
                memory.offset.eq(window.read_address),
                memory.target.eq(window.write_address),
                memory.word.eq(window.written),
                memory.cotangent.eq(window.written),
            ]
            with m.Switch(window.read_space):
                with m.Case(Space.REGISTERS, Space.REGISTER_COTANGENTS):
                    m.d.comb += registers.read.eq(window.read)
                with m.Case(Space.DATA, Space.DATA_COTANGENTS):
                    m.d.comb += memory.read.eq(window.read)
            with m.Switch(window.write_space):
                with m.Case(Space.REGISTERS):
                    m.d.comb += registers.write_word.eq(window.write)
                with m.Case(Space.REGISTER_COTANGENTS):
                    m.d.comb += registers.write_cotangent.eq(window.write)
                with m.Case(Space.DATA):
                    m.d.comb += memory.write_word.eq(window.write)
                with m.Case(Space.DATA_COTANGENTS):
                    m.d.comb += memory.write_cotangent.eq(window.write)
        with m.Switch(space):
            with m.Case(Space.REGISTERS):
                m.d.comb += window.data.eq(registers.d_word)
            with m.Case(Space.REGISTER_COTANGENTS):
                m.d.comb += window.data.eq(registers.d_cotangent)
            with m.Case(Space.DATA):
                m.d.comb += window.data.eq(memory.stored_word)
            with m.Case(Space.DATA_COTANGENTS):
                m.d.comb += window.data.eq(memory.stored_cotangent)
            with m.Case(Space.CODE):
                m.d.comb += window.data.eq(instruction)


def data_path(m: Module, lane: Lane, control: Control) -> None:
    """Add the lane to the module, connected as in the core small, under the control of a sequencer."""
    width, decoder = lane.parameters.width, lane.decoder
    m.submodules.branch = branch = lane.branch
    m.submodules.registers = registers = lane.registers
    m.submodules.memory = memory = lane.memory
    m.submodules.operands = operands = lane.operands
    m.submodules.guards = guards = GuardUnit(width)
    m.submodules.ledger = ledger = lane.ledger
    m.submodules.counters = counters = Counters(width)
    phase, now, head, instruction = control.phase, control.now, control.head, control.instruction
    _, overflow, strict = control.modes
    m.d.comb += [lane.phase.eq(phase), lane.idle.eq(phase == Phase.IDLE), branch.size.eq(lane.code_size)]

    # ------------------------------------------------ read
    inside = Signal()
    with m.If(phase == Phase.FETCH):
        m.d.sync += inside.eq(branch.inside)
    numbers = instruction.rd, instruction.ra, instruction.rb
    m.d.comb += registers.read.eq(phase == Phase.DECODE)
    m.d.comb += [getattr(registers, f"{x}_number").eq(number) for x, number in zip("dab", numbers, strict=True)]
    lane.memory_window(m, instruction)

    # ------------------------------------------------ operands and results
    latches: dict[Select, Any] = {
        Select.D: registers.d_word, Select.A: registers.a_word, Select.B: registers.b_word,
        Select.D_BAR: registers.d_cotangent, Select.A_BAR: registers.a_cotangent, Select.B_BAR: registers.b_cotangent,
        Select.M: memory.old_word, Select.M_BAR: memory.old_cotangent,
        Select.BR: branch.br, Select.IMM: decoder.imm, Select.NEGATED: decoder.negated,
    }  # fmt: skip
    m.d.comb += [operands.latches[latch.value].eq(word) for latch, word in latches.items()]
    m.d.comb += operands.runs.eq(phase == Phase.RUN)
    m.d.comb += [getattr(operands, f"{port}_source").eq(control.next[port]) for port in "xyz"]
    m.d.comb += [getattr(operands, f"{port}_first").eq(head[port]) for port in "xyz"]
    x, y, z = operands.x, operands.y, operands.z
    _units(m, lane, now, operands)

    # ------------------------------------------------ guards
    early = Signal(TrapCause)
    ends = Signal()
    # A trap that is found before execution stops the instruction one cycle later, still before its first write.
    m.d.sync += [early.eq(TrapCause.NONE), ends.eq(0)]
    m.d.comb += lane.jumping.eq(head.settled & (branch.br != 0))
    with m.If(~control.abandon), m.Switch(phase):
        with m.Case(Phase.DECODE), m.If(~inside):
            m.d.sync += early.eq(TrapCause.CODE)
        with m.Case(Phase.READ):
            with m.If(~decoder.legal):
                m.d.sync += early.eq(TrapCause.ILLEGAL)
            with m.Elif(lane.jumping):
                m.d.sync += early.eq(TrapCause.JUMP)
            with m.Elif(head.halts):
                m.d.sync += ends.eq(1)
        with m.Case(Phase.ACCESS), m.If(~memory.valid):
            m.d.sync += early.eq(TrapCause.MEMORY)
    m.d.comb += [
        guards.begin.eq(control.launch),
        guards.forbidden.eq(head.forbidden),
        guards.check.eq(now.check),
        guards.last.eq(operands.last),
        guards.overflow.eq(overflow),
        guards.strict.eq(strict),
        ledger.cotangent.eq(registers.d_cotangent),
        ledger.turned.eq(branch.turned),
        ledger.strict.eq(strict),
        ledger.forget.eq(lane.settings.forget),
    ]
    old = {"m": (memory.old_word, memory.old_cotangent)}
    old |= {place: (getattr(registers, f"{place}_word"), getattr(registers, f"{place}_cotangent")) for place in "dab"}
    lane.commit(
        m, control, guards, counters, Committing(
            control.commit, x, y, z, phase == Phase.ADDRESS, registers.a_word, memory.address, early, ends, lane.begins, head.turns,
            head.erases, instruction, instruction, old,
        ), _destination, _report,
    )  # fmt: skip


def _units(m: Module, lane: Lane, now: Any, operands: OperandFile) -> None:
    """Inputs of the function units, and the selection of the result that is written."""
    m.submodules.logic = logic = lane.logic
    m.submodules.multiplier = multiplier = lane.multiplier
    m.submodules.rom = rom = lane.rom
    m.submodules.divider = divider = lane.divider
    x, y = operands.x, operands.y
    multiplies = (now.operation == Operation.MULSHIFT) | (now.operation == Operation.MULROUND)
    divides = now.operation.matches(Operation.DIVSHIFT, Operation.DIVROUND, Operation.SQRTROUND)
    m.d.comb += [
        logic.operation.eq(now.operation), logic.x.eq(x), logic.y.eq(y), logic.z.eq(operands.z),
        multiplier.start.eq(multiplies), multiplier.half.eq(now.parameter), multiplier.x.eq(x), multiplier.y.eq(y),
        multiplier.shift.eq(now.shift),
        rom.table.eq(now.parameter), rom.x.eq(x),
        divider.start.eq(divides), divider.division.eq(now.parameter), divider.x.eq(x), divider.y.eq(y),
        divider.shift.eq(now.shift),
        operands.write.eq(now.write), operands.temporary.eq(now.temporary),
    ]  # fmt: skip
    with m.Switch(now.writer):
        with m.Case(Writer.LOGIC):
            m.d.comb += operands.result.eq(logic.result)
        with m.Case(Writer.MULTIPLIER):
            m.d.comb += operands.result.eq(multiplier.result)
        with m.Case(Writer.ROM):
            m.d.comb += operands.result.eq(rom.result)
        with m.Case(Writer.DIVIDER):
            m.d.comb += operands.result.eq(divider.result)


def _destination(m: Module, lane: Lane, c: Committing) -> tuple[Any, Any, Any]:
    """The number of the register whose word is written, and the word and the cotangent before the write."""
    width = lane.parameters.width
    number, word, cotangent = Signal(8), Signal(width), Signal(width)
    for which, name, place in ((Field.RD, "rd", "d"), (Field.RA, "ra", "a"), (Field.RB, "rb", "b")):
        with m.If(c.commit.field == which):
            m.d.comb += [number.eq(c.instruction[name]), word.eq(c.old[place][0]), cotangent.eq(c.old[place][1])]
    return number, word, cotangent


def _report(m: Module, lane: Lane, c: Committing, writes: Value) -> None:
    """On the retirement port, the state before, and the registers that are written."""
    r, branch, registers, memory, commit = lane.retirement, lane.branch, lane.registers, lane.memory, c.commit
    with m.If(lane.begins):
        m.d.sync += [
            r.pc_before.eq(branch.pc), r.br_before.eq(branch.br), r.backward_before.eq(branch.backward),
        ]  # fmt: skip
    with m.If(lane.begins):
        m.d.sync += [getattr(r, f"{place}_written").eq(0) for place in WRITTEN]
    fields = {"d": Field.RD, "a": Field.RA, "b": Field.RB}
    with m.If(lane.phase == Phase.READ):
        m.d.sync += r.instruction.eq(c.instruction)
    with m.If(commit.first):
        m.d.sync += r.address.eq(memory.address)
        for place, (word, cotangent) in c.old.items():
            m.d.sync += [
                getattr(r, f"{place}_word_before").eq(word),
                getattr(r, f"{place}_cotangent_before").eq(cotangent),
            ]
    for place, field in fields.items():
        with m.If((commit.field == field) & writes):
            m.d.sync += [
                getattr(r, f"{place}_written").eq(Cat(commit.word, commit.cotangent)),
                getattr(r, f"{place}_word_after").eq(registers.word),
                getattr(r, f"{place}_cotangent_after").eq(registers.cotangent),
            ]


def sequence(
    m: Module, microcode: Microcode, decoder: Decoder, code_memory: Memory, given: Any
) -> tuple[Sequencer, Control, Any]:
    """Add sequencer, decoder and code memory to a module: with the signals that control the lanes, and the port that reads the code.

    `given`: the modes of the core. PC and DIR are still to be connected.
    """
    m.submodules.sequencer = sequencer = Sequencer(microcode)
    m.submodules.decoder = decoder
    m.submodules.code = code_memory
    fetched = code_memory.read_port()
    phase, head = sequencer.phase, sequencer.head
    instruction = Signal(FIELDS)
    modes = Signal(3)
    m.d.comb += instruction.eq(fetched.data)
    with m.If(phase == Phase.FETCH):
        m.d.sync += modes.eq(Cat(given.differentiate, given.overflow, given.strict))
    m.d.comb += [
        decoder.instruction.eq(instruction),
        decoder.lifted.eq(modes[0]),
        decoder.decode.eq(phase == Phase.DECODE),
        decoder.head.eq(head),
        sequencer.opcode.eq(decoder.opcode),
        fetched.en.eq(phase == Phase.FETCH),
    ]
    control = Control(
        phase, sequencer.launch, head, sequencer.next, sequencer.now, sequencer.commit, sequencer.abandon,
        instruction, modes,
    )  # fmt: skip
    return sequencer, control, fetched


class Core(Lane):
    """A sequencer with one lane. Registers, memories and code are zero after reset. A host fills them through the window."""

    def __init__(self, parameters: Parameters, microcode: Microcode | None = None) -> None:
        code = microcode or microcode_for(parameters)
        self.code = MemoryData(shape=INSTRUCTION, depth=parameters.code_words, init=[])
        super().__init__(parameters, code, small_parts(parameters, code))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        code_memory = Memory(self.code)
        sequencer, control, fetched = sequence(m, self.microcode, self.decoder, code_memory, self.modes)
        m.d.comb += [
            self.begins.eq(control.phase == Phase.FETCH),
            sequencer.run.eq(self.run),
            self.decoder.backward.eq(self.branch.backward),
            fetched.addr.eq(Mux(self.idle, self.window.read_address, self.pc)),
        ]
        data_path(m, self, control)
        code_window(m, self, fetched, code_memory.write_port())
        return m


def code_window(m: Module, core: Any, fetched: Any, write: Any) -> None:
    """Reads and writes of the code memory by the host, while the core is idle. The address of a read is set by the core."""
    window = core.window
    m.d.comb += [write.addr.eq(window.write_address), write.data.eq(window.written)]
    with m.If(core.idle):
        m.d.comb += [
            write.en.eq(window.write & (window.write_space == Space.CODE)),
        ]
        with m.If(window.read_space == Space.CODE):
            m.d.comb += fetched.en.eq(window.read)
