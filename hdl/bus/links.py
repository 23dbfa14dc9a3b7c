"""Links from a host to a co-processor's bus: simulated hardware, and a serial line.

    bus.read(address) -> word of 32 bits          bus.write(address, word)
    bus.read_words(address, count, step)          bus.write_words(address, words, step)

Addresses and steps are in bytes. A refused transfer raises BusError and has changed nothing.
A simulated link can have a memory of the host, which the co-processor accesses by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, MutableSequence, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from amaranth.sim import Simulator
from retrograd.hdl.bus.host_interface import CycleType
from retrograd.hdl.bus.register_map import AREA_BITS, Area, HostRegister
from retrograd.hdl.bus.top import Coprocessor
from retrograd.hdl.parameters import REGISTERS, Parameters
from retrograd.isa.diagnostics import DeviceError, Diagnostic
from retrograd.isa.files import replacing_text

# -----------------------------------------------------------------------------
# A memory of the host.
#
#     HostMemory(words, address)      words of 32 bits for the host, and the byte address of the first for the co-processor
#     serve(ctx, bus, memory)         the same as a slave in Amaranth's simulator


@dataclass
class HostMemory:
    """Words that host and co-processor share. Raises ValueError for an address that is no multiple of 4.

    `words` is any sequence of integers from 0 to 2^32 − 1: a list, an array, or a `memoryview` of a buffer that the system has mapped.
    """

    words: MutableSequence[int]
    #: the byte address by which the co-processor reaches the first word
    address: int = 0

    def __post_init__(self) -> None:
        if self.address % 4 or not 0 <= self.address <= (1 << 32) - 4 * len(self.words):
            raise ValueError(
                f"{len(self.words)} words from {self.address:#x} on: the address is a multiple of 4 and has 32 bits"
            )

    def place(self, address: int) -> int | None:
        """The number of the word at a byte address; None if there is none."""
        at = (address - self.address) // 4
        return at if 0 <= at < len(self.words) else None


def block_memory(first: bool) -> int:
    """The pauses of a memory whose answers are registered: a cycle before the first word of a burst."""
    return int(first)


async def serve(ctx: Any, bus: Any, memory: HostMemory, pause: Callable[[bool], int] = block_memory) -> None:
    """Answer the transfers of a master without end. `pause`: cycles before an answer; its argument is whether a burst begins."""
    first = True
    while True:
        if not ctx.get(bus.cyc & bus.stb):
            first = True
            await ctx.tick()
            continue
        for _ in range(pause(first)):
            await ctx.tick()
        place, kind = memory.place(ctx.get(bus.adr) << 2), ctx.get(bus.cti)
        if place is not None and ctx.get(bus.we):
            memory.words[place] = ctx.get(bus.dat_w)
        elif place is not None:
            ctx.set(bus.dat_r, memory.words[place])
        answer = bus.err if place is None else bus.ack
        ctx.set(answer, 1)
        await ctx.tick()
        ctx.set(answer, 0)
        first = kind != CycleType.INCREMENTING.value


# -----------------------------------------------------------------------------
# Links.


class BusError(DeviceError):
    """RG1007: the co-processor refused a transfer, or did not answer."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(Diagnostic("RG1007", message, hint=hint))


class UnfinishedRun(BusError):
    """RG1007: a run trapped, or reached its limit of steps, and has no results."""

    def __init__(self, message: str, hint: str, *, trapped: bool, trap: str | None = None) -> None:
        super().__init__(message, hint)
        #: False for the limit
        self.trapped = trapped
        #: the code of the trap
        self.trap = trap


class Bus(ABC):
    """The bus as a driver uses it. To add a link, define `read`, `write` and `idle`; faster bursts and a memory are optional."""

    #: a memory that the co-processor reaches, for its direct memory access
    memory: HostMemory | None = None

    @abstractmethod
    def read(self, address: int) -> int:
        """The word at a byte address. Raises BusError."""

    @abstractmethod
    def write(self, address: int, word: int) -> None:
        """Write a word. Raises BusError."""

    @abstractmethod
    def idle(self) -> None:
        """Let some time pass for the hardware, to its interrupt at the longest."""

    def read_words(self, address: int, count: int, step: int) -> list[int]:
        """A burst: the words at address, address + step, …. Raises BusError."""
        return [self.read(address + i * step) for i in range(count)]

    def write_words(self, address: int, words: Sequence[int], step: int) -> None:
        """A burst: write the words to address, address + step, …. Raises BusError, after some or all of them."""
        for i, word in enumerate(words):
            self.write(address + i * step, word)


class StreamedBus(Bus):
    """The whole co-processor over a bus whose region holds only the slots. Words of the areas are accessed through STREAM, at POINTER."""

    def __init__(self, slots: Bus) -> None:
        self._slots = slots
        self.memory = slots.memory
        #: the address of the word at POINTER; None if it is not known
        self._pointer: int | None = None

    def read(self, address: int) -> int:
        """The word at a byte address; of a word of 64 bits, the low half first. Raises BusError."""
        # A read of the low half takes the whole word, and POINTER goes on.
        reached = self._at(address) if address % 8 == 0 else self._slot(address)
        word = self._slots.read(reached)
        if address % 8 == 0:
            self._pointer = None
        return word

    def write(self, address: int, word: int) -> None:
        """Write a word; of a word of 64 bits, the high half first. Raises BusError."""
        # The high half is held until the low half writes both, at POINTER.
        self._slots.write(self._at(address), word)
        if address % 8 == 0:
            self._pointer = None

    def idle(self) -> None:
        """Let some time pass for the hardware."""
        self._slots.idle()

    def _slot(self, address: int) -> int:
        """The address of the slot through which a word passes."""
        return address if _in_control(address) else HostRegister.STREAM.address + address % 8

    def _at(self, address: int) -> int:
        """The same, once POINTER is at the word."""
        word = address & ~7
        if not _in_control(address) and self._pointer != word:
            self._pointer = None
            self._slots.write(HostRegister.POINTER.address, word)
            self._pointer = word
        return self._slot(address)


def _in_control(address: int) -> bool:
    return address >> AREA_BITS == int(Area.CONTROL.value)


class SimulatedBus(Bus):
    """A co-processor in Amaranth's simulator, whose time passes only during transfers and waits. Slow; needs no other tool.

    `memory`: the memory of the host for a co-processor with direct memory access; by default it has room for each area. `vcd`: a file for
    the waveforms, complete once the bus is closed.
    """

    #: the longest wait for the interrupt, in cycles
    PATIENCE = 50

    def __init__(self, parameters: Parameters, *, memory: HostMemory | None = None, vcd: str | None = None) -> None:
        self.parameters = parameters
        #: clock cycles so far
        self.clock = 0
        self._coprocessor = Coprocessor(parameters)
        self._work: Callable[[Any], Any] | None = None
        self._found = 0
        self._simulator = Simulator(self._coprocessor)
        self._simulator.add_clock(1e-6)
        self._simulator.add_testbench(self._bench)
        if parameters.dma:
            room = 2 * max(parameters.code_words, parameters.data_words, REGISTERS)
            self.memory = shared = memory or HostMemory([0] * room)

            async def served(ctx: Any) -> None:
                await serve(ctx, self._coprocessor.memory, shared)

            self._simulator.add_testbench(served, background=True)
        self._waveforms = ExitStack()
        if vcd is not None:
            file = self._waveforms.enter_context(replacing_text(vcd))
            self._waveforms.enter_context(self._simulator.write_vcd(file))

    def close(self) -> None:
        """Finish the waveforms."""
        self._waveforms.close()

    def __enter__(self) -> SimulatedBus:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, address: int) -> int:
        """See Bus."""
        return self._transfer(address, None)

    def write(self, address: int, word: int) -> None:
        """See Bus."""
        self._transfer(address, word)

    def idle(self) -> None:
        """See Bus."""

        async def wait(ctx: Any) -> None:
            for _ in range(self.PATIENCE):
                if ctx.get(self._coprocessor.interrupt):
                    break
                await ctx.tick()
                self.clock += 1

        self._do(wait)

    def _transfer(self, address: int, word: int | None) -> int:
        bus, answered = self._coprocessor.bus, False

        async def transfer(ctx: Any) -> None:
            nonlocal answered
            ctx.set(bus.adr, address >> 2)
            ctx.set(bus.we, word is not None)
            ctx.set(bus.dat_w, word or 0)
            ctx.set(bus.sel, 0b1111)
            ctx.set(bus.cyc, 1)
            ctx.set(bus.stb, 1)
            refused = True
            while True:
                await ctx.tick()
                self.clock += 1
                if ctx.get(bus.ack):
                    refused = False
                    break
                if ctx.get(bus.err):
                    break
            self._found = ctx.get(bus.dat_r)
            ctx.set(bus.cyc, 0)
            ctx.set(bus.stb, 0)
            await ctx.tick()
            self.clock += 1
            answered = not refused

        self._do(transfer)
        if not answered:
            raise _refused(address, word)
        return self._found

    def _do(self, work: Callable[[Any], Any]) -> None:
        self._work = work
        while self._work is not None:
            self._simulator.advance()

    async def _bench(self, ctx: Any) -> None:
        while True:
            if self._work is None:
                # The simulator is only advanced to begin the next transfer.
                await ctx.delay(0)
            else:
                await self._work(ctx)
                self._work = None


class SerialLine(Protocol):
    """A serial line: an open `serial.Serial` of pyserial with a timeout, or an object with the same two methods."""

    def write(self, data: bytes, /) -> Any:
        """Send bytes."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; fewer after a timeout."""


class SerialBus(Bus):
    """A `SerialCoprocessor` at the end of a serial line.

    SerialBus(serial.Serial("/dev/ttyUSB0", 115200, timeout=1))
    """

    def __init__(self, line: SerialLine) -> None:
        self.line = line

    def read(self, address: int) -> int:
        """See Bus."""
        self.line.write(b"R" + address.to_bytes(4, "little"))
        return self._word(address)

    def write(self, address: int, word: int) -> None:
        """See Bus."""
        self.line.write(b"W" + address.to_bytes(4, "little") + word.to_bytes(4, "little"))
        self._answer(address, word)

    def read_words(self, address: int, count: int, step: int) -> list[int]:
        """See Bus. A burst of the line has up to 65,535 words."""
        words: list[int] = []
        while len(words) < count:
            first, n = address + len(words) * step, min(count - len(words), _BURST)
            self.line.write(b"r" + self._burst(first, n, step))
            words += [self._word(first + i * step) for i in range(n)]
        return words

    def write_words(self, address: int, words: Sequence[int], step: int) -> None:
        """See Bus."""
        for at in range(0, len(words), _BURST):
            first, part = address + at * step, words[at : at + _BURST]
            data = b"".join(word.to_bytes(4, "little") for word in part)
            self.line.write(b"w" + self._burst(first, len(part), step) + data)
            self._answer(first, part[0])

    @staticmethod
    def _burst(first: int, count: int, step: int) -> bytes:
        return first.to_bytes(4, "little") + count.to_bytes(2, "little") + step.to_bytes(1, "little", signed=True)

    def idle(self) -> None:
        """See Bus. The transfers of a serial line take long enough."""

    def _word(self, address: int) -> int:
        self._answer(address, None)
        data = self.line.read(4)
        if len(data) < 4:
            raise BusError(f"the answer to reading {address:#010x} stops after {1 + len(data)} of 5 bytes", _LINE)
        return int.from_bytes(data, "little")

    def _answer(self, address: int, word: int | None) -> None:
        answer = self.line.read(1)
        if answer == b"E":
            raise _refused(address, word)
        if answer != b"K":
            said = "nothing came back" if not answer else f"{answer!r} came back"
            raise BusError(f"{_transfer(address, word)}: {said}", _LINE)


#: the most words of a burst
_BURST = 65_535
_LINE = "Look at the line's speed, and that it is a SerialCoprocessor's. It forgets half a command after a while."


def _transfer(address: int, word: int | None) -> str:
    return f"reading {address:#010x}" if word is None else f"writing {word:#010x} to {address:#010x}"


def _refused(address: int, word: int | None) -> BusError:
    return BusError(f"the co-processor refused {_transfer(address, word)}")
