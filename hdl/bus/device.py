"""A host's driver: the co-processor as an object.

    device.load(program)          code and data, all registers 0, PC at `start`
    device.run()                  to the end, a trap or a limit
    device.gradient(loss)         run · copy out · clear cotangents, loss̄ := 1 · D = 1, reverse, run · ∂loss/∂word

States after a trap and the order of events are those of the reference machine. Source: the register map in docs/coprocessor.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from retrograd.hdl.bus.host_interface import COMMANDS, MAGIC, STATUS, UNLIMITED, Area, HostRegister
from retrograd.hdl.bus.links import Bus, BusError, UnfinishedRun
from retrograd.hdl.microword import TrapCause
from retrograd.hdl.parameters import REGISTERS
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.program import Program
from retrograd.isa.words import Format

_LOW, _WORD = (1 << 32) - 1, (1 << 64) - 1
_COMMAND = {name: 1 << field.offset for name, field in COMMANDS}


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


def need_steps(steps: int | None) -> int:
    """`steps` as the STEPS slot has it; None is unlimited. Raises InputError RG1009."""
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
        #: the hardware may hold a high half: one that this driver wrote, or an earlier driver
        self._half_may_wait = True
        identity = self._read(Area.CONTROL, HostRegister.IDENTITY.value)
        if identity >> 16 & 0xFFFF != MAGIC:
            raise BusError(f"what answers is no co-processor: it says {identity & _LOW:#010x}")
        #: the word format of the hardware
        self.format = Format(identity >> 8 & 0xFF, identity & 0xFF)
        #: capacity in instructions and in words of data, rounded up to powers of two
        self.code_words, self.data_words = 1 << (identity >> 32 & 0xFF), 1 << (identity >> 40 & 0xFF)
        self._program: Program | None = None

    # ------------------------------------------------------------------ state

    def load(self, program: Program, memory: Sequence[int] = (), *, backward: bool = False) -> None:
        """Store code and data, with `memory` over the first words; all else is 0. PC is at `start` or, backward, at `finish`.

        Raises InputError RG0505 for a program that does not fit, or of another format.
        """
        if program.format != self.format:
            _refuse(f"the program is {program.format}, and the co-processor {self.format}")
        words = max(program.memory, len(memory))
        for what, n, room in (
            ("instructions", len(program.code), self.code_words), ("words of data", words, self.data_words),
        ):  # fmt: skip
            if n > room:
                _refuse(f"the program has {n} {what}, and the co-processor room for {room}")
        self._write_all(Area.CODE, 0, program.code)
        data = [*program.data, *[0] * (words - len(program.data))]
        data[: len(memory)] = memory
        self._write_all(Area.DATA, 0, data)
        self._write_all(Area.REGISTERS, 0, [0] * REGISTERS)
        self._set(HostRegister.CODE_SIZE, len(program.code))
        self._set(HostRegister.DATA_SIZE, words)
        self._program, self._words, self._backward = program, words, backward
        self.clear_cotangents()
        self._stand_before()
        self.modes()
        self._command("clear")

    def _stand_before(self) -> None:
        """Set PC, BR and DIR as before the run."""
        self._set(HostRegister.BR, 0)
        self._set(HostRegister.DIRECTION, int(self._backward))
        self._set(HostRegister.PC, self.program.finish if self._backward else self.program.start)

    @property
    def program(self) -> Program:
        """The program that was loaded. Raises InputError if there is none."""
        if self._program is None:
            _refuse("no program was loaded")
        return self._program

    def registers(self) -> list[int]:
        """All registers, as words."""
        return self._read_all(Area.REGISTERS, 0, REGISTERS)

    def memory(self, first: int = 0, count: int | None = None) -> list[int]:
        """Words of memory; without arguments, all of the program's."""
        return self._read_all(Area.DATA, first, self._count(first, count))

    def register_cotangents(self) -> list[int]:
        """The cotangents of the registers."""
        return self._read_all(Area.REGISTER_COTANGENTS, 0, REGISTERS)

    def memory_cotangents(self, first: int = 0, count: int | None = None) -> list[int]:
        """The cotangents of the memory words."""
        return self._read_all(Area.DATA_COTANGENTS, first, self._count(first, count))

    def _count(self, first: int, count: int | None) -> int:
        _ = self.program
        return self._words - first if count is None else count

    def set_registers(self, words: Mapping[int, int]) -> None:
        """r := word."""
        for r, word in words.items():
            self._write(Area.REGISTERS, r, word & self.format.mask)

    def set_memory(self, first: int, words: Iterable[int]) -> None:
        """M[first…] := words."""
        self._write_all(Area.DATA, first, words)

    def clear_cotangents(self) -> None:
        """Set all cotangents to zero, and forget which were discarded."""
        self._write_all(Area.REGISTER_COTANGENTS, 0, [0] * REGISTERS)
        self._write_all(Area.DATA_COTANGENTS, 0, [0] * self._words)
        self._command("forget")

    def modes(self, *, differentiate: bool = False, overflow: bool = True, strict: bool = False) -> None:
        """Set the modes of the instructions that follow."""
        self._set(HostRegister.MODES, differentiate | overflow << 1 | strict << 2)

    def turn(self) -> None:
        """Reverse DIR: the next step undoes the last."""
        self._command("turn")

    # ------------------------------------------------------------------ motion

    def run(self, steps: int | None = None) -> DeviceRun:
        """Run to the end, to a trap, or for `steps` ≥ 0 instructions. Raises InputError RG1009."""
        limit = need_steps(steps)
        before = self._counters()
        self._set(HostRegister.STEPS, limit)
        self._command("run")
        while True:
            status = self._read(Area.CONTROL, HostRegister.STATUS.value)
            if not status & 1:
                break
            self.bus.idle()
        trapped, halted = (bool(status >> STATUS[name].offset & 1) for name in ("trapped", "halted"))
        ended = Ended.TRAPPED if trapped else Ended.HALTED if halted else Ended.LIMIT
        code = TrapCause(status >> STATUS["trap"].offset & 0xF).code if trapped else None
        return self._outcome(ended, code, before)

    def gradient(self, loss: int, *, register: bool = False, scale: int = 0, steps: int | None = None) -> Gradient:
        """∂loss/∂word for every initial word. The loss is a word of memory or a register.

        Run forward; copy the results out; clear the cotangents; loss̄ := 2^scale; D := 1; run backward to `start`. Afterwards all
        words but the cotangents are as loaded. Raises BusError if either run traps or takes more than `steps` steps, with the machine
        left in that state, and InputError RG1009 for a loss or scale out of range.
        """
        _within("the loss", loss, 0, (REGISTERS if register else self._count(0, None)) - 1)
        need_scale(scale, self.format)
        forward = self.run(steps)
        self.need(forward, "the run")
        memory, registers = self.memory(), self.registers()
        self.clear_cotangents()
        area = Area.REGISTER_COTANGENTS if register else Area.DATA_COTANGENTS
        self._write(area, loss, 1 << (self.format.frac + scale))
        self.modes(differentiate=True)
        self.turn()
        backward = self.run(steps)
        self.need(backward, "the run back")
        found = Gradient(memory, registers, self.memory_cotangents(), self.register_cotangents(), forward, backward)
        self._stand_before()
        self.modes()
        return found

    def need(self, outcome: DeviceRun, what: str) -> None:
        """Raise UnfinishedRun unless the run came to the end of the program."""
        if outcome.ended is not Ended.HALTED:
            raise UnfinishedRun(
                f"{what} ended at PC = {outcome.pc}: {outcome.code or outcome.ended.value}",
                "`retrograd explain CODE` describes the code. The machine stands before the instruction.",
                trapped=outcome.ended is Ended.TRAPPED,
            )

    def _outcome(self, ended: Ended, code: str | None, before: Sequence[int]) -> DeviceRun:
        pc, br = (self._signed(self._read(Area.CONTROL, slot.value)) for slot in (HostRegister.PC, HostRegister.BR))
        backward = self._read(Area.CONTROL, HostRegister.DIRECTION.value)
        counts = [now - then for now, then in zip(self._counters(), before, strict=True)]
        return DeviceRun(ended, code, pc, br, -1 if backward else 1, *counts)

    def _counters(self) -> list[int]:
        slots = (HostRegister.CYCLES, HostRegister.RETIRED, HostRegister.TOGGLED, HostRegister.ERASED)
        return [self._read(Area.CONTROL, slot.value) for slot in slots]

    # ------------------------------------------------------------------ the bus

    def _read(self, area: Area, index: int) -> int:
        at = _address(area, index)
        return self.bus.read(at) | self.bus.read(at + 4) << 32

    def _write(self, area: Area, index: int, word: int) -> None:
        at = _address(area, index)
        # A high half of 0 is not written, unless a transfer that failed may have left a high half for this slot.
        if word >> 32 or self._half_may_wait:
            self._half_may_wait = True
            self.bus.write(at + 4, word >> 32)
        self.bus.write(at, word & _LOW)
        self._half_may_wait = False

    def _read_all(self, area: Area, first: int, count: int) -> list[int]:
        mask = self.format.mask
        if self.format.width <= 32:
            return [self.bus.read(_address(area, i)) & mask for i in range(first, first + count)]
        return [self._read(area, i) & mask for i in range(first, first + count)]

    def _write_all(self, area: Area, first: int, words: Iterable[int]) -> None:
        for i, word in enumerate(words, first):
            self._write(area, i, word & _WORD)

    def _set(self, slot: HostRegister, word: int) -> None:
        self._write(Area.CONTROL, slot.value, word)

    def _command(self, name: str) -> None:
        self._set(HostRegister.CONTROL, _COMMAND[name])

    def _signed(self, word: int) -> int:
        return word - (word >> 63 << 64)


def _address(area: Area, index: int) -> int:
    return area.value << 28 | index << 3


def _refuse(message: str) -> NoReturn:
    raise InputError(Diagnostic("RG0505", message))
