"""A model of the co-processor on its bus (docs/coprocessor.md), with the reference machine in it; and random transfers.

    model.transfer(address, word, sel, busy)    the word that is read, or None where the transfer is refused

The model executes what the hardware has retired; whether that may be the end of the run is checked.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from retrograd.hdl.bus.register_map import MAGIC, UNLIMITED, Area, HostRegister
from retrograd.hdl.microword import TRAPS
from retrograd.hdl.parameters import Parameters
from retrograd.isa.encoding import Instruction, encode
from retrograd.isa.table import TABLE

import retrograd as rg

RUN, STEP, STOP, TURN, FORGET, CLEAR, ZERO_WORDS, ZERO_COTANGENTS = (
    field.mask for field in HostRegister.CONTROL.fields[:8]
)
_BUSY, _HALTED, _TRAPPED, _BACKWARD = (
    HostRegister.STATUS.field(name).mask for name in ("busy", "halted", "trapped", "backward")
)
_TRAP, _INTERRUPT = HostRegister.STATUS.field("trap").low, HostRegister.STATUS.field("interrupt").mask
_EVENTS = {field.name: field.mask for field in HostRegister.INTERRUPT_PENDING.fields}
COPY_IN, COPY_OUT = (HostRegister.CONTROL.field(name).mask for name in ("copy_in", "copy_out"))
_COPY_FAILED = HostRegister.STATUS.field("copy_failed").mask
_POINTS = sum(field.mask for field in HostRegister.POINTER.fields)
_LOW, _WORD = (1 << 32) - 1, (1 << 64) - 1
_READ_ONLY = {
    HostRegister.IDENTITY,
    HostRegister.STATUS,
    HostRegister.CYCLES,
    HostRegister.RETIRED,
    HostRegister.TOGGLED,
    HostRegister.ERASED,
    HostRegister.INTERRUPT_PENDING,
}
_ALWAYS = {HostRegister.INTERRUPT_ENABLE, HostRegister.INTERRUPT_CLEAR}
#: slots that the hardware changes while it runs
_MOVING = {
    HostRegister.STATUS,
    HostRegister.PC,
    HostRegister.BR,
    HostRegister.DIRECTION,
    HostRegister.CYCLES,
    HostRegister.RETIRED,
    HostRegister.TOGGLED,
    HostRegister.ERASED,
    HostRegister.RUNNING_LANES,
    HostRegister.HALTED_LANES,
    HostRegister.TRAPPED_LANES,
    HostRegister.ISSUED_CYCLES,
    HostRegister.ISSUED,
}
#: slots that go on during a copy
_COPIED = {HostRegister.POINTER, HostRegister.DMA_ADDRESS, HostRegister.DMA_LENGTH}
#: what the code is made of: no instruction that drops a cotangent
MNEMONICS = (
    "imm.add", "mov.add", "mov.xor", "mul.add", "fmul.add", "div.add", "neg", "swap", "exch", "ld.add", "st.xor", "roli",
    "goto", "from", "goto.lt", "from.lt", "goto.ne", "from.ne", *["finish"] * 3,
)  # fmt: skip


@dataclass
class Model:
    """What a host knows of the co-processor."""

    parameters: Parameters
    pc: int = 0
    br: int = 0
    direction: int = 1
    modes: int = 0
    steps: int = UNLIMITED
    status: int = 0
    cycles: int = 0
    retired: int = 0
    register_size: int = 256
    interrupt_enable: int = 0
    interrupt_pending: int = 0
    pointer: int = 0
    #: the host's memory, from a byte address on, and addresses that it refuses
    host: list[int] = field(default_factory=list)
    first: int = 0
    refused: set[int] = field(default_factory=set)
    dma_address: int = 0
    dma_length: int = 0
    copy_failed: bool = False
    #: the command of a copy that goes on
    copying: int = 0
    #: words are being set to zero, or have been since the last transfer
    zeroing: bool = False
    #: area and index, 29 bits -> the half that waits to be written, or was kept for a read (None: not known to the model)
    waiting: dict[int, int] = field(default_factory=dict)
    kept: dict[int, int | None] = field(default_factory=dict)
    #: a run goes on: how many instructions it may execute, and whether it was stopped
    limit: int | None = None
    stopped: bool = False

    def __post_init__(self) -> None:
        p = self.parameters
        self.areas: dict[Area, list[int]] = {
            Area.REGISTERS: [0] * 256, Area.REGISTER_COTANGENTS: [0] * 256, Area.DATA: [0] * p.data_words,
            Area.DATA_COTANGENTS: [0] * p.data_words, Area.CODE: [0] * p.code_words,
        }  # fmt: skip
        self.code_size, self.data_size = p.code_words, p.data_words

    # ---------------------------------------------------------------- transfers

    def transfer(self, address: int, word: int | None, sel: int, busy: bool, cut: bool = False) -> int | None:
        """One transfer; None where it is refused. `cut`: the master has gone after a cycle, and sees no answer."""
        if self.zeroing and not busy:
            self.zeroing = False
            self.interrupt_pending |= _EVENTS["zeroed"]
        number, high = address >> 3, address >> 2 & 1
        area, index = address >> 28, number & ((1 << 25) - 1)
        streams = number == HostRegister.STREAM.value
        if streams:
            area, index = self.pointer >> 28, self.pointer >> 3 & ((1 << 25) - 1)
            if area == Area.CONTROL.value:
                return None
        found = self._carried_out(area, index, word, sel, busy, cut, high, number)
        if streams and found is not None and not high and not (cut and word is None):
            self.pointer = area << 28 | (index + 1) % (1 << 25) << 3
        return found

    def _carried_out(
        self, area: int, index: int, word: int | None, sel: int, busy: bool, cut: bool, high: int, number: int
    ) -> int | None:
        if not self._allowed(area, index, word, sel, busy, bool(high), number):
            return None
        if word is None:
            return self._read(Area(area), index, number, bool(high), busy, cut)
        if high:
            self.waiting = {number: word}
        else:
            whole = self.waiting.get(number, 0) << 32 | word
            self.waiting = {}
            self._write(Area(area), index, whole)
        return 0

    def _allowed(self, area: int, index: int, word: int | None, sel: int, busy: bool, high: bool, number: int) -> bool:
        if area > Area.CODE.value:
            return False
        kind = Area(area)
        slots = sum(self.parameters.dma or not slot.dma for slot in HostRegister)
        if index >= (slots if kind is Area.CONTROL else len(self.areas[kind])):
            return False
        if word is None:
            return (kind is Area.CONTROL or not busy) and (not high or number in self.kept)
        if sel != 15:
            return False
        if kind is Area.CONTROL and HostRegister(index) is HostRegister.CONTROL:
            known = word < (2 * COPY_OUT if self.parameters.dma else 2 * ZERO_COTANGENTS)
            starts = [bool(word & bits) for bits in (RUN, STEP, ZERO_WORDS | ZERO_COTANGENTS, COPY_IN, COPY_OUT)]
            if word & (COPY_IN | COPY_OUT) and not self._fits():
                return False
            return known and not (busy and word & ~STOP) and sum(starts) < 2
        slot = HostRegister(index) if kind is Area.CONTROL else None
        if slot is HostRegister.DMA_ADDRESS and word % 4 and not high:
            return False
        return (not busy or slot in _ALWAYS) and slot not in _READ_ONLY

    def _read(self, area: Area, index: int, number: int, high: bool, busy: bool, cut: bool) -> int | None:
        """−1 where the word is not known."""
        if high:
            kept = self.kept[number]
            return -1 if kept is None else kept
        if area is not Area.CONTROL and cut:
            return -1
        slot = None if area is not Area.CONTROL else HostRegister(index)
        moving = _MOVING | (_COPIED if self.copying else set())
        if (slot in moving and busy) or slot is HostRegister.TOGGLED:
            self.kept = {number: None}
            return -1
        word = self.areas[area][index] if slot is None else self._slot(slot) & _WORD
        if slot is None and area is not Area.CODE and self.parameters.width < 64:
            # The high bits of a short word are those of the wires.
            self.kept = {number: None}
        else:
            self.kept = {number: word >> 32}
        return word & _LOW

    def _slot(self, slot: HostRegister) -> int:
        p = self.parameters
        match slot:
            case HostRegister.IDENTITY:
                room = (p.data_words - 1).bit_length() << 8 | (p.code_words - 1).bit_length()
                return self.parameters.dma << 56 | room << 32 | MAGIC << 16 | p.width << 8 | p.format.frac
            case (
                HostRegister.CONTROL | HostRegister.ERASED | HostRegister.INTERRUPT_CLEAR | HostRegister.LANE
                | HostRegister.RUNNING_LANES
            ):  # fmt: skip
                return 0
            case HostRegister.HALTED_LANES:
                return int(bool(self.status & _HALTED))
            case HostRegister.TRAPPED_LANES:
                return int(bool(self.status & _TRAPPED))
            case HostRegister.ISSUED_CYCLES:
                return self.cycles
            case HostRegister.ISSUED:
                return self.retired
            case HostRegister.STATUS:
                raised = self.interrupt_pending & self.interrupt_enable
                failed = _COPY_FAILED if self.copy_failed else 0
                return self.status | failed | (_BACKWARD if self.direction < 0 else 0) | (_INTERRUPT if raised else 0)
            case HostRegister.DIRECTION:
                return int(self.direction < 0)
            case HostRegister.BR:
                return p.format.signed(self.br & p.format.mask)
        return int(getattr(self, slot.name.lower()))

    def _write(self, area: Area, index: int, word: int) -> None:
        p = self.parameters
        if area is Area.CODE:
            self.areas[area][index] = word
        elif area is not Area.CONTROL:
            self.areas[area][index] = word & p.format.mask
        else:
            match HostRegister(index):
                case HostRegister.CONTROL:
                    self._command(word & _LOW)
                case HostRegister.MODES:
                    self.modes = word & 7
                case HostRegister.PC:
                    # A word of 64 bits with a sign
                    self.pc = self._wrapped(word - (word >> 63 << 64))
                case HostRegister.BR:
                    self.br = p.format.signed(word & p.format.mask)
                case HostRegister.DIRECTION:
                    self.direction = -1 if word & 1 else 1
                case HostRegister.CODE_SIZE:
                    self.code_size = min(word, p.code_words)
                case HostRegister.DATA_SIZE:
                    self.data_size = min(word, p.data_words)
                case HostRegister.STEPS:
                    self.steps = word
                case HostRegister.REGISTER_SIZE:
                    self.register_size = min(word, 256)
                case HostRegister.INTERRUPT_ENABLE:
                    self.interrupt_enable = word & (63 if p.dma else 15)
                case HostRegister.INTERRUPT_CLEAR:
                    self.interrupt_pending &= ~word
                case HostRegister.POINTER:
                    self.pointer = word & _POINTS
                case HostRegister.DMA_ADDRESS:
                    self.dma_address = word & _LOW & ~3
                case HostRegister.DMA_LENGTH:
                    self.dma_length = min(word, (2 << max(256, p.code_words, p.data_words).bit_length()) - 1)
                case HostRegister.LANE:
                    pass
                case _:
                    raise AssertionError(index)

    def _wrapped(self, pc: int) -> int:
        bits = self.parameters.pc_bits
        pc &= (1 << bits) - 1
        return pc - (pc >> (bits - 1) << bits)

    # ---------------------------------------------------------------- runs

    def _command(self, word: int) -> None:
        if word & TURN:
            self.pc = self._wrapped(self.pc - self.direction * (self.br or 1))
            self.direction = -self.direction
        if word & CLEAR:
            self.cycles = self.retired = 0
        if word & (RUN | STEP | ZERO_WORDS | ZERO_COTANGENTS | COPY_IN | COPY_OUT):
            self.interrupt_pending = 0
        if word & (COPY_IN | COPY_OUT):
            self.copying, self.copy_failed, self.stopped = word & (COPY_IN | COPY_OUT), False, False
        for command, registers, data in (
            (ZERO_WORDS, Area.REGISTERS, Area.DATA),
            (ZERO_COTANGENTS, Area.REGISTER_COTANGENTS, Area.DATA_COTANGENTS),
        ):
            if word & command:
                # No transfer sees the words before all are zero; the event comes then.
                self.zeroing = True
                self.areas[registers][: self.register_size] = [0] * self.register_size
                self.areas[data][: self.data_size] = [0] * self.data_size
        if word & (RUN | STEP):
            self.status = 0
            self.limit, self.stopped = 1 if word & STEP else self.steps, False
        if word & STOP:
            self.stopped = True

    def _fits(self) -> bool:
        area, index = self.pointer >> 28, self.pointer >> 3 & ((1 << 25) - 1)
        return 1 <= area <= Area.CODE.value and index + self.dma_length <= len(self.areas[Area(area)])

    def copied(self, status: int, left: int) -> str:
        """A copy has ended: copy the words that the hardware has copied. How that ended; AssertionError where it cannot be."""
        command, self.copying = self.copying, 0
        area, index = Area(self.pointer >> 28), self.pointer >> 3 & ((1 << 25) - 1)
        halves = 2 if area is Area.CODE or self.parameters.width > 32 else 1
        words, n = self.areas[area], self.dma_length - left
        assert 0 <= n <= self.dma_length, (n, self.dma_length)
        failed = bool(status & _COPY_FAILED)
        assert failed or self.stopped or not left, left

        def carried_out(address: int) -> bool:
            return 0 <= address - self.first < 4 * len(self.host) and address not in self.refused

        at = self.dma_address
        for i in range(index, index + n):
            found = 0
            for half in range(halves):
                assert carried_out(at), hex(at)
                place = (at - self.first) // 4
                if command == COPY_OUT:
                    self.host[place] = words[i] >> 32 * half & _LOW
                found |= self.host[place] << 32 * half
                at += 4
            words[i] = found if area is Area.CODE else found & self.parameters.format.mask
        read = index + n
        if failed:
            for half in range(halves):
                if not carried_out(at):
                    break
                if command == COPY_OUT:
                    self.host[(at - self.first) // 4] = words[read] >> 32 * half & _LOW
                at += 4
            else:
                raise AssertionError("no word was refused")
            read += command == COPY_OUT
        self.dma_address, self.dma_length, self.copy_failed = at & _LOW, left, failed
        self.pointer = area.value << 28 | read << 3
        self.interrupt_pending |= _EVENTS["copy_failed" if failed else "copied"]
        return "copy_failed" if failed else "copy stopped" if left else "copied"

    def ended(self, status: int, retired: int) -> str:
        """The hardware is idle again: execute what it has retired. How that ended; AssertionError where it cannot be."""
        if self.limit is None:
            return ""
        limit, self.limit = self.limit, None
        n = retired - self.retired
        assert 0 <= n <= limit, (n, limit)
        machine = self._machine()
        try:
            outcome = machine.run(n)
        except rg.Trap as trap:
            raise AssertionError(f"of {n} instructions one traps") from trap
        assert outcome.steps == n, (outcome, n)
        how = "halted" if status & _HALTED else "trapped" if status & _TRAPPED else "limit"
        if how == "halted":
            assert machine.at_end, machine.pc
            self.status = _HALTED
        elif how == "trapped":
            code = self._trap_of(machine)
            assert code is not None, (machine.pc, status)
            self.status = _TRAPPED | TRAPS[code].value << _TRAP
        else:
            assert self.stopped or n == limit, (n, limit)
        if n == limit:
            assert how == "limit", how
        self.interrupt_pending |= _EVENTS["stopped" if how == "limit" else how]
        self._take(machine)
        return how

    def _machine(self) -> rg.Machine:
        p = self.parameters
        code = self.areas[Area.CODE][: self.code_size]
        program = rg.Program(code, [], self.data_size, p.format)
        m = rg.Machine(program, overflow=bool(self.modes & 2), strict=bool(self.modes & 4))
        m.differentiating = True
        m.registers[:], m.cotangents[:] = self.areas[Area.REGISTERS], self.areas[Area.REGISTER_COTANGENTS]
        m.memory[:] = self.areas[Area.DATA][: self.data_size]
        m.memory_cotangents[:] = self.areas[Area.DATA_COTANGENTS][: self.data_size]
        m.differentiating = bool(self.modes & 1)
        m.pc, m.br, m.direction = self.pc, self.br, self.direction
        return m

    def _trap_of(self, machine: rg.Machine) -> str | None:
        if machine.at_end:
            return None
        try:
            machine.step()
        except rg.Trap as trap:
            return trap.code
        return None

    def _take(self, m: rg.Machine) -> None:
        self.areas[Area.REGISTERS][:], self.areas[Area.REGISTER_COTANGENTS][:] = m.registers, m.cotangents
        self.areas[Area.DATA][: self.data_size] = m.memory
        self.areas[Area.DATA_COTANGENTS][: self.data_size] = m.memory_cotangents
        self.pc, self.br, self.direction = self._wrapped(m.pc), m.br, m.direction
        self.retired += m.retired
        self.cycles += m.cycles


# ---------------------------------------------------------------- random transfers


@dataclass(frozen=True)
class Transfer:
    """One of a host's transfers. `lost`: it does not arrive; `cut`: its answer does not."""

    address: int
    word: int | None = None
    sel: int = 15
    lost: bool = False
    cut: bool = False
    #: it begins when the co-processor is idle
    waits: bool = False


def address(area: Area, index: int) -> int:
    return area.value << 28 | index << 3


#: the byte address of the host's memory
HOST = 0x4000_0000


class Random:
    """Random transfers, legal and illegal, of a host whose line loses some."""

    def __init__(self, rng: random.Random, p: Parameters) -> None:
        self.rng, self.p = rng, p
        #: a command that the co-processor does not have
        self.unknown = 2 * (COPY_OUT if p.dma else ZERO_COTANGENTS)

    def instruction(self, at: int) -> int:
        """A legal one, for this address: `start` stands at 0 and nowhere else."""
        rng, o = self.rng, TABLE[self.rng.choice(MNEMONICS) if at else "start"]
        named = dict(zip(("rd", "ra", "rb"), rng.sample(range(6), 3), strict=True))
        imm = rng.randrange(8) if "[ra+imm]" in o.operands else rng.randint(-6, 6)
        fields = {name: value for name, value in (named | {"imm": imm}).items() if name in o.fields}
        return encode(Instruction(o, **fields))

    def word(self) -> int:
        rng, w = self.rng, self.p.format
        return rng.choice((rng.randrange(6), rng.getrandbits(w.width), w.sign, w.mask)) & w.mask

    def load(self) -> Iterator[Transfer]:
        """Code, and words that a reset does not clear."""
        for at in range(self.p.code_words):
            yield from self.write(Area.CODE, at, self.instruction(at), well=True)
        for area in (Area.REGISTERS, Area.REGISTER_COTANGENTS):
            for at in range(8):
                yield from self.write(area, at, self.word(), well=True)
        for area in (Area.DATA, Area.DATA_COTANGENTS):
            for at in range(self.p.data_words):
                yield from self.write(area, at, self.word(), well=True)

    def write(self, area: Area, index: int, word: int, *, well: bool = False) -> Iterator[Transfer]:
        """Both halves, or the low one; some are lost, and something may come between them."""
        rng, at = self.rng, address(area, index)
        if area is Area.CODE:
            well = True  # half an instruction is illegal, and the reference machine takes legal code only
        if word >> 32 or area is Area.CODE or rng.random() < 0.3:
            yield Transfer(at + 4, word >> 32, lost=not well and rng.random() < 0.1, cut=rng.random() < 0.1)
            if rng.random() < 0.3:
                yield self.between()
        yield Transfer(at, word & _LOW, lost=not well and rng.random() < 0.1, cut=rng.random() < 0.1)

    def between(self) -> Transfer:
        """A transfer that leaves a half where it waits, and writes nothing."""
        return self.rng.choice([self.read, self.refused])()

    def read(self) -> Transfer:
        rng = self.rng
        area = rng.choice([Area.CONTROL, *Area])
        size = {Area.CONTROL: len(HostRegister), Area.DATA: self.p.data_words, Area.DATA_COTANGENTS: self.p.data_words,
                Area.CODE: self.p.code_words}.get(area, 8)  # fmt: skip
        return Transfer(address(area, rng.randrange(size)) + rng.choice((0, 0, 4)), cut=rng.random() < 0.1)

    def refused(self) -> Transfer:
        rng = self.rng
        return rng.choice((
            Transfer(rng.getrandbits(28) & ~7 | rng.randrange(6, 16) << 28, rng.choice((None, 1))),
            Transfer(address(Area.DATA, self.p.data_words + rng.randrange(9)), rng.choice((None, 1))),
            Transfer(address(Area.REGISTERS, rng.randrange(8)), rng.getrandbits(32), sel=rng.randrange(15)),
            Transfer(address(Area.CONTROL, rng.choice([s.value for s in _READ_ONLY])), 1),
            Transfer(address(Area.CONTROL, HostRegister.CONTROL.value), rng.choice((RUN | STEP, RUN | ZERO_WORDS, self.unknown))),
        ))  # fmt: skip

    def slot(self) -> Iterator[Transfer]:
        rng, p = self.rng, self.p
        slot = rng.choice(
            (
                HostRegister.MODES,
                HostRegister.PC,
                HostRegister.PC,
                HostRegister.BR,
                HostRegister.DIRECTION,
                HostRegister.CODE_SIZE,
                HostRegister.DATA_SIZE,
                HostRegister.STEPS,
                HostRegister.REGISTER_SIZE,
                HostRegister.INTERRUPT_ENABLE,
                HostRegister.INTERRUPT_CLEAR,
                HostRegister.POINTER,
            )
        )
        # Half an instruction is illegal, so the pointer stays out of the code.
        area = Area.CODE
        while area is Area.CODE:
            area = rng.choice([*Area])
        word = {
            HostRegister.MODES: rng.randrange(8), HostRegister.PC: rng.choice((rng.randrange(-2, p.code_words + 2), rng.randrange(1, 9))),
            HostRegister.BR: rng.choice((0, 0, rng.randint(-6, 6), -p.format.sign)), HostRegister.DIRECTION: rng.randrange(2),
            HostRegister.CODE_SIZE: rng.choice((rng.randint(1, p.code_words), 1 << 40)),
            HostRegister.DATA_SIZE: rng.choice((rng.randint(0, p.data_words), 1 << 40)),
            HostRegister.REGISTER_SIZE: rng.choice((0, 1, rng.randrange(9), 256, 1 << 33)),
            HostRegister.INTERRUPT_ENABLE: rng.randrange(64), HostRegister.INTERRUPT_CLEAR: rng.randrange(64),
            HostRegister.POINTER: area.address(rng.randrange(max(8, p.data_words) + 2)) | rng.randrange(8),
            HostRegister.STEPS: rng.choice((0, 1, rng.randrange(40), 1 << 32, (1 << 32) + rng.randrange(3), UNLIMITED)),
        }[slot]  # fmt: skip
        # A code size of 0, which a lost half could leave, has no place for `start`, and the model needs one.
        yield from self.write(Area.CONTROL, slot.value, word & _WORD, well=slot is HostRegister.CODE_SIZE)
        if slot is HostRegister.INTERRUPT_CLEAR:
            yield Transfer(HostRegister.INTERRUPT_PENDING.address)

    def copy(self) -> Iterator[Transfer]:
        """A copy, at times refused or stopped. Instructions come from the first words of the host's memory, which have no other use."""
        rng, p = self.rng, self.p
        area = rng.choice([*Area])
        size = {Area.CODE: p.code_words, Area.DATA: p.data_words, Area.DATA_COTANGENTS: p.data_words}.get(area, 256)
        index = rng.randrange(size + 1) if area in (Area.CODE, Area.DATA) else rng.randrange(12)
        out = rng.random() < 0.5
        at = HOST + (8 * index if area is Area.CODE and not out else 8 * p.code_words + 4 * rng.randrange(-1, 40))
        if not out and area is not Area.CODE:
            at = HOST + 4 * rng.randrange(-1, 80)
        elif out:
            at = max(at, HOST + 8 * p.code_words)
        length = rng.choice((0, 1, rng.randrange(6), rng.randrange(40), max(0, size - index), size + 1, 1 << 40))
        # A copy into the code has the right place and pointer, or it is not begun.
        yield Transfer(HostRegister.POINTER.address + 4, 0)
        yield Transfer(HostRegister.POINTER.address, area.address(index))
        yield Transfer(HostRegister.DMA_ADDRESS.address + 4, 0)
        yield Transfer(HostRegister.DMA_ADDRESS.address, at + rng.choice((0, 0, 0, 0, 1, 2, 3)))
        yield from self.write(Area.CONTROL, HostRegister.DMA_LENGTH.value, length)
        yield Transfer(HostRegister.CONTROL.address, COPY_OUT if out else COPY_IN, cut=rng.random() < 0.1)
        for _ in range(rng.randrange(4)):
            yield rng.choice((self.read(), Transfer(HostRegister.CONTROL.address, rng.choice((STOP, STOP, RUN, TURN)))))

    def host_memory(self) -> list[int]:
        """Instructions for each place of the code, and other words."""
        code = [self.instruction(at) for at in range(self.p.code_words)]
        halves = [half for word in code for half in (word & _LOW, word >> 32)]
        return halves + [self.rng.getrandbits(32) for _ in range(48)]

    def any(self) -> Iterator[Transfer]:
        """A few transfers that belong together."""
        rng, p = self.rng, self.p
        if p.dma and rng.random() < 0.25:
            yield from self.copy()
            return
        match rng.randrange(13):
            case 0:
                at = rng.randrange(p.code_words)
                yield from self.write(Area.CODE, at, self.instruction(at))
            case 1:
                yield from self.write(
                    rng.choice((Area.REGISTERS, Area.REGISTER_COTANGENTS)), rng.randrange(8), self.word()
                )
            case 2:
                area = rng.choice((Area.DATA, Area.DATA_COTANGENTS))
                yield from self.write(area, rng.randrange(p.data_words), self.word())
            case 3 | 4 | 5:
                yield from self.slot()
            case 6 | 7:
                command = rng.choice((RUN, RUN, STEP, RUN | TURN, TURN, CLEAR, FORGET, STOP, CLEAR | RUN))
                yield Transfer(address(Area.CONTROL, HostRegister.CONTROL.value), command, cut=rng.random() < 0.1)
            case 8:
                yield self.refused()
            case 9:
                command = rng.choice(
                    (ZERO_WORDS, ZERO_COTANGENTS, ZERO_WORDS | ZERO_COTANGENTS | CLEAR, ZERO_COTANGENTS | TURN)
                )
                yield Transfer(HostRegister.CONTROL.address, command, cut=rng.random() < 0.1)
            case 10:
                # A half whose other half does not come, and then low words alone: of another slot, or of this one.
                first, second = rng.choices(
                    (HostRegister.STEPS, HostRegister.DATA_SIZE, HostRegister.REGISTER_SIZE), k=2
                )
                yield Transfer(first.address + 4, rng.randrange(1, 4))
                for _ in range(2):
                    yield Transfer(second.address, rng.randrange(4))
                yield Transfer(second.address)
                yield Transfer(second.address + 4)
            case 11:
                if p.dma:
                    # A copy of instructions may have left the pointer in the code, and STREAM writes no instructions.
                    yield Transfer(HostRegister.POINTER.address + 4, 0, waits=True)
                    yield Transfer(HostRegister.POINTER.address, Area.DATA.address(rng.randrange(p.data_words)))
                for _ in range(rng.randrange(1, 5)):
                    if rng.random() < 0.5:
                        yield from self.write(Area.CONTROL, HostRegister.STREAM.value, self.word())
                    else:
                        yield Transfer(HostRegister.STREAM.address, cut=rng.random() < 0.1)
                        yield Transfer(HostRegister.STREAM.address + 4)
            case _:
                read = self.read()
                yield read
                if rng.random() < 0.6:
                    yield Transfer(read.address | 4)
