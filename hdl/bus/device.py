"""A host's driver: the co-processor as an object.

    device.load(program)          code and data, all registers 0, PC at `start`
    device.run()                  to the end, a trap or a limit
    device.gradient(loss)         run · copy out · clear cotangents, loss̄ := 1 · D = 1, reverse, run · ∂loss/∂word
    device.load_batch(program, rows), run_batch, gradient_batch        the same on the core barrel, a row of words for each thread

States after a trap and the order of events are those of the reference machine. Source: the register map, docs/reference/registers.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from retrograd.hdl.bus.links import Bus, BusError, HostMemory, UnfinishedRun
from retrograd.hdl.bus.register_map import MAGIC, UNLIMITED, Area, HostRegister
from retrograd.hdl.microword import TrapCause
from retrograd.hdl.parameters import REGISTERS
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.program import Program
from retrograd.isa.words import Format

_LOW, _WORD = (1 << 32) - 1, (1 << 64) - 1
#: the number of transfers that take as long as a copy of a block, including the transfers that begin the copy and
#: wait for its end
_COPY = 8
#: addresses in host registers have 64 bits with a sign, in every format
_HOST_WORD = Format(64, 32)
_STATUS = HostRegister.STATUS


class Ended(Enum):
    """The reason why a run ended."""

    HALTED = "halted"
    LIMIT = "limit"
    TRAPPED = "trap"


@dataclass(frozen=True)
class DeviceRun:
    """A run that has ended."""

    ended: Ended
    #: RG0306 or RG04…, if it trapped
    code: str | None
    pc: int
    br: int
    #: +1 or −1
    direction: int
    #: of this run: clock cycles of retired instructions, their number, bits toggled and bits erased
    cycles: int
    retired: int
    toggled: int
    erased: int


@dataclass(frozen=True)
class Gradient:
    """Results of a program, and their derivatives by its initial words."""

    #: words of memory after the forward run
    memory: list[int]
    registers: list[int]
    #: ∂loss/∂word for the initial words of memory and registers, as words
    memory_cotangents: list[int]
    register_cotangents: list[int]
    forward: DeviceRun
    backward: DeviceRun


@dataclass(frozen=True)
class BatchRun:
    """The runs of the lanes, which have ended."""

    lanes: list[DeviceRun]
    #: for all rows together: clock cycles in which an instruction was on its way, and the number of instructions
    cycles: int
    issued: int


@dataclass(frozen=True)
class BatchGradient:
    """Results of a program and their derivatives, of each row of a batch."""

    lanes: list[Gradient]
    forward: BatchRun
    backward: BatchRun


def need_steps(steps: int | None) -> int:
    """The value of the slot STEPS for this limit; None is unlimited. Raises InputError RG1009."""
    return UNLIMITED if steps is None else _within("the number of steps", steps, 0, UNLIMITED)


def need_scale(scale: int, w: Format) -> int:
    """n, if a cotangent of 2^n fits a word. Raises InputError RG1009."""
    return _within("the scale", scale, -w.frac, w.width - 2 - w.frac)


def _within(name: str, value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        said = f"{name} is {value!r:.40}, and not an integer from {least} to {most}"
        raise InputError(Diagnostic("RG1009", said))
    return value


class CoprocessorDriver:
    """A co-processor on a bus. Raises BusError if the bus does not answer, or if it has another kind of device."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        #: whether the hardware may hold a high half, written by this driver or an earlier one
        self._half_may_wait = True
        identity, named = self._read(HostRegister.IDENTITY), HostRegister.IDENTITY.field
        if named("magic").of(identity) != MAGIC:
            raise BusError(f"what answers is no co-processor: it says {identity & _LOW:#010x}")
        #: the word format of the hardware
        self.format = Format(named("width").of(identity), named("fraction").of(identity))
        #: capacity in instructions and in words of data, rounded up to powers of two
        self.code_words, self.data_words = 1 << named("code_room").of(identity), 1 << named("data_room").of(identity)
        #: data paths; a core of several executes a batch
        self.lanes = 1 + named("more_lanes").of(identity)
        #: the host's memory, if the hardware copies its words by itself
        self._memory = bus.memory if named("dma").of(identity) else None
        #: the lanes that have rows of a batch
        self._rows = 1
        self._program: Program | None = None
        #: the lane that is read and written; None: lane 0 is read, and all are written
        self._lane: int | None = None
        #: the registers that the program can change, from r0 on; and, for each lane, the words of other registers
        #: that the host has set
        self._registers, self._others = REGISTERS, [dict[int, int]() for _ in range(self.lanes)]
        #: the STEPS that the hardware has, if this driver has set them
        self._steps: int | None = None

    # ------------------------------------------------------------------ state

    def load(self, program: Program, memory: Sequence[int] = (), *, backward: bool = False) -> None:
        """Store code and data, with `memory` over the first words; all else is 0. PC is at `start` or, backward, at `finish`.

        Raises InputError RG0505 for a program that does not fit, or of another format.
        """
        if program.format != self.format:
            _refuse(
                f"the program is {program.format}, and the co-processor {self.format}",
                f"Write `.format {self.format.width}, {self.format.frac}` in a text, or compile a function with "
                f'format="{self.format}".',
            )
        words = max(program.memory, len(memory))
        for what, n, room, more in (
            ("instructions", len(program.code), self.code_words, "code_words"),
            ("words of data", words, self.data_words, "data_words"),
        ):
            if n > room:
                hint = f"Make the hardware with more room: Parameters(…, {more}={n}), or a greater number."
                _refuse(f"the program has {n} {what}, and the co-processor room for {room}", hint)
        data = [*program.data, *[0] * (words - len(program.data))]
        data[: len(memory)] = memory
        # rd, ra and rb are bytes 6, 5 and 4 of an instruction. A program cannot reach a register that it does not name.
        self._registers = 1 + max((max(word.to_bytes(8)[1:4]) for word in program.code), default=0)
        self._others, self._steps, self._rows = [{} for _ in range(self.lanes)], None, 1
        self.select()
        # With direct memory access, the end of a copy is an event. Without it, code is written first, in two halves a
        # word.
        if self._memory:
            self._enable_events()
        self._write_all(Area.CODE, 0, program.code)
        self._set(HostRegister.CODE_SIZE, len(program.code))
        self._set(HostRegister.DATA_SIZE, words)
        self._set(HostRegister.REGISTER_SIZE, self._registers)
        if not self._memory:
            self._enable_events()
        self._command("zero_words", "zero_cotangents", "clear")
        self._finished()
        while data and not data[-1]:
            del data[-1]
        self._write_all(Area.DATA, 0, data)
        self._program, self._words, self._backward = program, words, backward
        self._stand_before()
        self.modes()

    def load_batch(self, program: Program, rows: Sequence[Sequence[int]], *, backward: bool = False) -> None:
        """Load a program with the first words of memory of each lane. A lane without a row repeats the last row, and costs no cycle.

        Raises as `load`, and InputError RG0505 for no rows or more rows than lanes.
        """
        if not 1 <= len(rows) <= self.lanes:
            _refuse(
                f"the batch has {len(rows)} rows, and the co-processor {self.lanes} lane{'s' * (self.lanes > 1)}",
                "Give at least one row, and at most one for each lane at a time.",
            )
        longest = max(map(len, rows))
        *others, last = [[*row, *[0] * (longest - len(row))] for row in rows]
        self.load(program, last, backward=backward)
        for lane, row in enumerate(others):
            self.select(lane)
            self._write_all(Area.DATA, 0, row)
        self.select()
        self._rows = len(rows)

    def select(self, lane: int | None = None) -> None:
        """Read and write this lane; with None, as after `load`, read lane 0 and write all lanes. Raises InputError RG1009."""
        if lane is not None:
            _within("the lane", lane, 0, self.lanes - 1)
        self._lane = lane
        if self.lanes > 1:
            self._set(HostRegister.LANE, HostRegister.LANE.field("all").mask if lane is None else lane)

    def _enable_events(self) -> None:
        """Each event raises the interrupt line, which ends a wait."""
        self._set(HostRegister.INTERRUPT_ENABLE, sum(event.mask for event in HostRegister.INTERRUPT_ENABLE.fields))

    def _stand_before(self) -> None:
        """Set PC, BR and DIR as before the run."""
        self._set(HostRegister.BR, 0)
        self._set(HostRegister.DIRECTION, int(self._backward))
        self._set(HostRegister.PC, self.program.finish if self._backward else self.program.start)

    @property
    def program(self) -> Program:
        """The program that was loaded. Raises InputError if there is none."""
        if self._program is None:
            _refuse("no program was loaded", "Call `load(program)` first.")
        return self._program

    def registers(self) -> list[int]:
        """All registers, as words. Registers that the program does not name are not read, since they still hold the words that the host has set."""
        words = self._read_all(Area.REGISTERS, 0, self._registers)
        return words + [self._others[self._lane or 0].get(r, 0) for r in range(self._registers, REGISTERS)]

    def memory(self, first: int = 0, count: int | None = None) -> list[int]:
        """Words of memory; without arguments, all of the program's."""
        return self._read_all(Area.DATA, first, self._count(first, count))

    def register_cotangents(self) -> list[int]:
        """The cotangents of the registers."""
        cotangents = self._read_all(Area.REGISTER_COTANGENTS, 0, self._registers)
        return cotangents + [0] * (REGISTERS - self._registers)

    def memory_cotangents(self, first: int = 0, count: int | None = None) -> list[int]:
        """The cotangents of the memory words."""
        return self._read_all(Area.DATA_COTANGENTS, first, self._count(first, count))

    def _count(self, first: int, count: int | None) -> int:
        _ = self.program
        return self._words - first if count is None else count

    def set_registers(self, words: Mapping[int, int]) -> None:
        """r := word."""
        for r, word in words.items():
            self._write(Area.REGISTERS.address(r), word & self.format.mask)
            if r >= self._registers:
                for lane in range(self.lanes) if self._lane is None else (self._lane,):
                    self._others[lane][r] = word & self.format.mask

    def set_memory(self, first: int, words: Iterable[int]) -> None:
        """M[first…] := words."""
        self._write_all(Area.DATA, first, words)

    def clear_cotangents(self) -> None:
        """Set all cotangents to zero, and forget which were discarded."""
        self._command("zero_cotangents")
        self._finished()

    def modes(self, *, differentiate: bool = False, overflow: bool = True, strict: bool = False) -> None:
        """Set the modes of the instructions that follow."""
        self._set(HostRegister.MODES, differentiate | overflow << 1 | strict << 2)

    def turn(self) -> None:
        """Reverse DIR: the next step undoes the last."""
        self._command("turn")

    # ------------------------------------------------------------------ motion

    def run(self, steps: int | None = None) -> DeviceRun:
        """Run to the end, to a trap, or for `steps` ≥ 0 instructions. Raises InputError RG1009."""
        return self._outcome(self._execute(steps))

    def run_batch(self, steps: int | None = None) -> BatchRun:
        """Run all lanes, each to its end, to its trap, or for `steps` ≥ 0 instructions of its own. Raises InputError RG1009."""
        self._execute(steps)
        lanes = [self._outcome(self.bus.read(_STATUS.address)) for _ in self._each()]
        # A thread without a row repeats the last row, and does not count.
        return BatchRun(lanes, self._read(HostRegister.ISSUED_CYCLES), sum(run.retired for run in lanes))

    def _execute(self, steps: int | None) -> int:
        """Run; the status afterwards."""
        limit = need_steps(steps)
        if limit != self._steps:
            self._set(HostRegister.STEPS, limit)
        self._command("clear", "run")
        return self._finished()

    def _outcome(self, status: int) -> DeviceRun:
        trapped, halted = (bool(_STATUS.field(name).of(status)) for name in ("trapped", "halted"))
        ended = Ended.TRAPPED if trapped else Ended.HALTED if halted else Ended.LIMIT
        code = TrapCause(_STATUS.field("trap").of(status)).code if trapped else None
        pc, br = (_HOST_WORD.signed(self._read(slot)) for slot in (HostRegister.PC, HostRegister.BR))
        return DeviceRun(ended, code, pc, br, -1 if _STATUS.field("backward").of(status) else 1, *self._counters())

    def _finished(self) -> int:
        """The status, once the hardware is idle again."""
        while True:
            self.bus.idle()
            status = self.bus.read(_STATUS.address)
            if not _STATUS.field("busy").of(status):
                return status

    def gradient(self, loss: int, *, register: bool = False, scale: int = 0, steps: int | None = None) -> Gradient:
        """∂loss/∂word for every initial word. The loss is a word of memory or a register.

        Run forward; copy the results out; clear the cotangents; loss̄ := 2^scale; D := 1; run backward to `start`. Afterwards all
        words except the cotangents are as loaded. Raises BusError if either run traps or takes more than `steps` steps, with the machine
        left in that state, and InputError RG1009 for a loss or scale out of range.
        """
        _within("the loss", loss, 0, (REGISTERS if register else self._count(0, None)) - 1)
        need_scale(scale, self.format)
        forward = self.run(steps)
        self.need(forward, "the run")
        memory, registers = self.memory(), self.registers()
        self._seed(loss, register, scale)
        backward = self.run(steps)
        self.need(backward, "the run back")
        found = Gradient(memory, registers, self.memory_cotangents(), self.register_cotangents(), forward, backward)
        self._stand_before()
        self.modes()
        return found

    def gradient_batch(
        self, loss: int, *, register: bool = False, scale: int = 0, steps: int | None = None
    ) -> BatchGradient:
        """`gradient` of each row of the batch. Raises as `gradient`, where a lane traps or takes more than `steps` steps."""
        _within("the loss", loss, 0, (REGISTERS if register else self._count(0, None)) - 1)
        need_scale(scale, self.format)
        forward = self.run_batch(steps)
        self.need_batch(forward, "the run")
        results = [(self.memory(), self.registers()) for _ in self._each()]
        self._seed(loss, register, scale)
        backward = self.run_batch(steps)
        self.need_batch(backward, "the run back")
        cotangents = [(self.memory_cotangents(), self.register_cotangents()) for _ in self._each()]
        ways = zip(forward.lanes, backward.lanes, strict=True)
        lanes = [Gradient(*a, *b, *c) for a, b, c in zip(results, cotangents, ways, strict=True)]
        self._stand_before()
        self.modes()
        return BatchGradient(lanes, forward, backward)

    def _each(self) -> Iterator[int]:
        """The lanes that have rows, each selected in turn; then all."""
        for lane in range(self._rows):
            self.select(lane)
            yield lane
        self.select()

    def memories(self) -> list[list[int]]:
        """The memory of each row of a batch."""
        return [self.memory() for _ in self._each()]

    def _seed(self, loss: int, register: bool, scale: int) -> None:
        """Cotangents 0, loss̄ := 2^scale, D := 1, and the machine turned round."""
        self.clear_cotangents()
        area = Area.REGISTER_COTANGENTS if register else Area.DATA_COTANGENTS
        self._write(area.address(loss), 1 << (self.format.frac + scale))
        self.modes(differentiate=True)
        self.turn()

    def need_batch(self, outcome: BatchRun, what: str) -> None:
        """Raise UnfinishedRun unless each lane came to the end of the program."""
        for lane, run in enumerate(outcome.lanes):
            self.need(run, f"{what} of lane {lane}")

    def need(self, outcome: DeviceRun, what: str) -> None:
        """Raise UnfinishedRun unless the run came to the end of the program."""
        if outcome.ended is not Ended.HALTED:
            raise UnfinishedRun(
                f"{what} ended at PC = {outcome.pc}: {outcome.code or outcome.ended.value}",
                "`retrograd explain CODE` describes the code. The machine stands before the instruction.",
                trapped=outcome.ended is Ended.TRAPPED,
                trap=outcome.code,
            )

    def _counters(self) -> list[int]:
        """Cycles, instructions, bits toggled and bits erased of the last run."""
        return self._read_wide(HostRegister.CYCLES.address, 4)

    # ------------------------------------------------------------------ the bus

    def _read(self, slot: HostRegister) -> int:
        (word,) = self._read_wide(slot.address, 1)
        return word

    def _read_wide(self, at: int, count: int) -> list[int]:
        halves = self.bus.read_words(at, 2 * count, 4)
        return [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)]

    def _write(self, at: int, word: int) -> None:
        # A high half of 0 is not written, unless a transfer that failed may have left a high half for this slot.
        if word >> 32 or self._half_may_wait:
            self._half_may_wait = True
            self.bus.write(at + 4, word >> 32)
        self.bus.write(at, word & _LOW)
        self._half_may_wait = False

    def _read_all(self, area: Area, first: int, count: int) -> list[int]:
        at, mask = area.address(first), self.format.mask
        if self._memory and count * self._halves(area) > _COPY:
            return [word & mask for word in self._copied_out(self._memory, area, first, count)]
        words = self.bus.read_words(at, count, 8) if self.format.width <= 32 else self._read_wide(at, count)
        return [word & mask for word in words]

    def _write_all(self, area: Area, first: int, words: Iterable[int]) -> None:
        """Write a block. If all high words are 0, only the low words are written; else the words are written from the last one down, high half first.

        A long block is copied from the host's memory, if the hardware does so.
        """
        block = [word & _WORD for word in words]
        if self._memory and len(block) * self._halves(area) > _COPY:
            self._copy_in(self._memory, area, first, block)
            return
        if block and self._half_may_wait:
            self._write(area.address(first), block.pop(0))
            first += 1
        if not block:
            return
        self._half_may_wait = True
        if any(word >> 32 for word in block):
            halves = [half for word in reversed(block) for half in (word >> 32, word & _LOW)]
            self.bus.write_words(area.address(first + len(block) - 1) + 4, halves, -4)
        else:
            self.bus.write_words(area.address(first), block, 8)
        self._half_may_wait = False

    def _halves(self, area: Area) -> int:
        """The words of the host's memory for a word of the area."""
        return 2 if area is Area.CODE or self.format.width > 32 else 1

    def _parts(self, memory: HostMemory, area: Area, first: int, count: int) -> Iterator[tuple[int, int]]:
        """(first word, number of words) of each part of a block for which the host's memory has room."""
        room = len(memory.words) // self._halves(area)
        if not room:
            raise BusError("the host's memory has no room for a word")
        for at in range(first, first + count, room):
            yield at, min(room, first + count - at)

    def _copy(self, memory: HostMemory, command: str, at: int, count: int) -> None:
        """Copy `count` words, from the byte address on, with the beginning of the host's memory."""
        self._set(HostRegister.DMA_ADDRESS, memory.address)
        self._set(HostRegister.POINTER, at)
        self._set(HostRegister.DMA_LENGTH, count)
        self._command(command)
        if _STATUS.field("copy_failed").of(self._finished()):
            raise BusError(f"the host's memory refused the word at {self._read(HostRegister.DMA_ADDRESS):#010x}")

    def _copy_in(self, memory: HostMemory, area: Area, first: int, block: Sequence[int]) -> None:
        halves = self._halves(area)
        for at, n in self._parts(memory, area, first, len(block)):
            for i, word in enumerate(block[at - first : at - first + n]):
                for half in range(halves):
                    memory.words[halves * i + half] = word >> 32 * half & _LOW
            self._copy(memory, "copy_in", area.address(at), n)

    def _copied_out(self, memory: HostMemory, area: Area, first: int, count: int) -> list[int]:
        halves, found = self._halves(area), list[int]()
        for at, n in self._parts(memory, area, first, count):
            self._copy(memory, "copy_out", area.address(at), n)
            found += [
                sum(int(memory.words[halves * i + half]) << 32 * half for half in range(halves)) for i in range(n)
            ]
        return found

    def _set(self, slot: HostRegister, word: int) -> None:
        if slot is HostRegister.STEPS:
            self._steps = None
        self._write(slot.address, word)
        if slot is HostRegister.STEPS:
            self._steps = word

    def _command(self, *names: str) -> None:
        self._set(HostRegister.CONTROL, sum(HostRegister.CONTROL.field(name).mask for name in names))


def _refuse(message: str, hint: str) -> NoReturn:
    raise InputError(Diagnostic("RG0505", message, hint=hint))
