"""The driver: a program and its gradient over the bus, and over a serial line; what is wrong is told, and changes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from amaranth.sim import Simulator
from retrograd.hdl.bus.device import CoprocessorDriver, Ended
from retrograd.hdl.bus.links import Bus, BusError, SerialBus, SimulatedBus
from retrograd.hdl.bus.register_map import Area, HostRegister
from retrograd.hdl.bus.top import SerialCoprocessor
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.runs import Place, run
from retrograd.isa.diagnostics import InputError
from retrograd.isa.words import Format

import retrograd as rg
from retrograd import fixed, reversible
from retrograd.hardware import run_on_hardware

Q32, Q64 = Format(32, 16), Format(64, 32)
#: M[1] += (M[0] · M[2])², both factors with cotangents
SQUARE = """
        .format {w}, {f}
        .memory 5
        .data
x:      .word   1.5q
y:      .word   0
z:      .word   -2.25q
        .text
        start
        ld.add  r1, [r0 + x]
        ld.add  r2, [r0 + z]
        fmul.add r3, r1, r2
        fmul.add r4, r3, r3
        st.add  [r0 + y], r4
        finish
"""
DIVIDES = ".format 32, 16\nstart\nadd r1, 7\ndiv.add r2, r1, r3\nfinish"


def square(w: Format) -> rg.Program:
    return rg.assemble(SQUARE.format(w=w.width, f=w.frac))


@pytest.fixture(scope="module")
def buses() -> Iterator[Callable[[Format], SimulatedBus]]:
    """One co-processor for each format: it takes seconds to begin."""
    made: dict[Format, SimulatedBus] = {}

    def of(w: Format) -> SimulatedBus:
        if w not in made:
            made[w] = SimulatedBus(Parameters(w, 32, 16))
        return made[w]

    yield of
    for bus in made.values():
        bus.close()


def reference(program: rg.Program, loss: int) -> tuple[rg.Machine, list[int], int]:
    """(the machine before `start` again, memory after the run, its cycles): with cotangents of the loss."""
    machine = rg.Machine(program)
    machine.run()
    memory, cycles = list(machine.memory), machine.cycles
    machine.differentiating = True
    machine.memory_cotangents[loss] = 1 << program.format.frac
    machine.turn()
    machine.run()
    return machine, memory, cycles


@pytest.mark.long
@pytest.mark.parametrize("w", [Q32, pytest.param(Q64, marks=pytest.mark.long)], ids=str)
def test_a_gradient(buses: Callable[[Format], SimulatedBus], w: Format) -> None:
    device, program = CoprocessorDriver(buses(w)), square(w)
    assert (device.format, device.code_words, device.data_words) == (w, 32, 16)
    device.load(program)
    found = device.gradient(program.data_labels["y"])
    machine, memory, cycles = reference(program, program.data_labels["y"])
    assert found.memory == memory
    assert found.memory_cotangents == list(machine.memory_cotangents)
    assert found.register_cotangents == list(machine.cotangents)
    assert found.forward.cycles == cycles
    assert found.forward.cycles + found.backward.cycles == machine.cycles
    # It stands where it was, and does it again.
    assert device.memory() == [*program.data, 0, 0]
    assert not any(device.registers())
    if w == Q64:
        assert device.gradient(program.data_labels["y"]) == found


#: r1 counts up to 3
LOOP = """
        .format {w}, {f}
        start
        add     r2, 3
again:  from.ne r1, r0, more
        add     r1, 1
more:   goto.lt r1, r2, again
        sub     r1, r2
        finish
"""


@pytest.mark.parametrize("w", [Q32, pytest.param(Q64, marks=pytest.mark.long)], ids=str)
def test_a_jump_to_a_lower_address_is_under_way(buses: Callable[[Format], SimulatedBus], w: Format) -> None:
    program = rg.assemble(LOOP.format(w=w.width, f=w.frac))
    device, machine = CoprocessorDriver(buses(w)), rg.Machine(program)
    device.load(program)
    seen = set()
    for _ in range(6):
        outcome = device.run(1)
        machine.run(1)
        assert (outcome.pc, outcome.br) == (machine.pc, w.signed(machine.br))
        seen.add(outcome.br < 0)
    assert seen == {False, True}


@pytest.mark.long
def test_steps_there_and_back(buses: Callable[[Format], SimulatedBus]) -> None:
    device, program = CoprocessorDriver(buses(Q32)), square(Q32)
    device.load(program)
    machine = rg.Machine(program)
    for steps in (1, 2, 0, 1):
        outcome = device.run(steps)
        machine.run(steps)
        assert (outcome.ended, outcome.pc, outcome.br, outcome.direction) == (Ended.LIMIT, machine.pc, 0, 1)
        assert outcome.retired == steps
        assert device.registers() == machine.registers
    device.turn()
    machine.turn()
    outcome = device.run()
    machine.run()
    assert (outcome.ended, outcome.pc, outcome.direction) == (Ended.HALTED, machine.pc, -1)
    assert device.registers() == machine.registers


@pytest.mark.long
def test_what_is_given_is_used(buses: Callable[[Format], SimulatedBus]) -> None:
    device, program = CoprocessorDriver(buses(Q32)), square(Q32)
    device.load(program, [3 << 16, 5])
    device.set_registers({3: 1 << 16, 200: -1})
    device.set_memory(4, [-7])
    device.run()
    machine = rg.Machine(program)
    machine.load(0, [3 << 16, 5])
    machine.load(4, [-7])
    machine.registers[3], machine.registers[200] = 1 << 16, Q32.mask
    machine.run()
    assert device.memory() == machine.memory
    assert device.memory(3, 2) == machine.memory[3:5]
    assert device.registers() == machine.registers
    device.clear_cotangents()
    assert not any(device.memory_cotangents())
    assert not any(device.register_cotangents())


@pytest.mark.long
def test_backward(buses: Callable[[Format], SimulatedBus]) -> None:
    device, program = CoprocessorDriver(buses(Q32)), square(Q32)
    device.load(program, backward=True)
    outcome = device.run()
    machine = rg.Machine(program, backward=True)
    machine.run()
    assert (outcome.ended, outcome.pc, outcome.direction) == (Ended.HALTED, machine.pc, -1)
    assert device.memory() == machine.memory


@pytest.mark.long
def test_traps(buses: Callable[[Format], SimulatedBus]) -> None:
    device = CoprocessorDriver(buses(Q32))
    device.load(rg.assemble(DIVIDES))
    outcome = device.run()
    assert (outcome.ended, outcome.code, outcome.pc, outcome.retired) == (Ended.TRAPPED, "RG0402", 2, 2)
    with pytest.raises(BusError, match=r"the run ended at PC = 2: RG0402"):
        device.gradient(2, register=True)
    # It can go back from there.
    device.turn()
    assert device.run().ended is Ended.HALTED
    assert not any(device.registers())


@pytest.mark.long
def test_modes(buses: Callable[[Format], SimulatedBus]) -> None:
    device = CoprocessorDriver(buses(Q32))
    device.load(rg.assemble(".format 32, 16\nstart\nadd r1, 7\nerase r1\nfinish"))
    device.modes(strict=True)
    assert device.run().code == "RG0408"
    device.load(device.program)
    outcome = device.run()
    assert (outcome.ended, outcome.erased) == (Ended.HALTED, 32)


def test_what_does_not_fit(buses: Callable[[Format], SimulatedBus]) -> None:
    device = CoprocessorDriver(buses(Q32))
    device.load(square(Q32))
    long, wide = "start\n" + "add r1, 1\n" * 40 + "finish", ".memory 17\n.text\nstart\nfinish"
    for program, said, way in (
        (square(Q64), "the program is Q32.32, and the co-processor Q16.16", ".format 32, 16"),
        (rg.assemble(f".format 32, 16\n{long}"), "has 42 instructions", "code_words=42"),
        (rg.assemble(f".format 32, 16\n{wide}"), "has 17 words of data", "data_words=17"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            device.load(program)
        assert way in str(caught.value)
        assert device.memory() == [*square(Q32).data, 0, 0]


def test_nothing_was_loaded(buses: Callable[[Format], SimulatedBus]) -> None:
    with pytest.raises(InputError, match="no program was loaded"):
        CoprocessorDriver(buses(Q32)).memory()


def test_what_the_hardware_refuses(buses: Callable[[Format], SimulatedBus]) -> None:
    bus = buses(Q32)
    for address in (Area.DATA.value << 28 | 16 << 3, len(HostRegister) << 3, 0x7000_0000):
        with pytest.raises(BusError, match=f"refused reading {address:#010x}"):
            bus.read(address)
    with pytest.raises(BusError, match="refused writing 0x00000001 to 0x00000000"):
        bus.write(0, 1)


class Lossy(Bus):
    """A bus that loses the write of this number: it does not arrive."""

    def __init__(self, bus: Bus, number: int) -> None:
        self.bus, self.left = bus, number

    def read(self, address: int) -> int:
        return self.bus.read(address)

    def write(self, address: int, word: int) -> None:
        self.left -= 1
        if self.left == -1:
            raise BusError("lost")
        self.bus.write(address, word)

    def idle(self) -> None:
        self.bus.idle()


WORDS = [0x1111_1111_2222_2222, 5, 0x3333_3333_4444_4444, 6]


@pytest.mark.parametrize("known", [False, True], ids=["another driver's", "its own"])
def test_a_lost_transfer_spoils_no_other(buses: Callable[[Format], SimulatedBus], known: bool) -> None:
    """Whichever is lost: each word that is written afterwards, by this driver or the next, is as it was written."""
    for number in range(6):
        lossy = Lossy(buses(Q32), number)
        device = CoprocessorDriver(lossy)
        with contextlib.suppress(BusError):
            device._write_all(Area.CODE, 0, WORDS)
        if not known:
            device = CoprocessorDriver(buses(Q32))
        # The small word again, and then its neighbours.
        for at in (1, 0, 2, 3):
            device._write(Area.CODE.address(at), WORDS[at] & 0xFFFF_FFFF)
            assert device._read_wide(Area.CODE.address(at), 1) == [WORDS[at] & 0xFFFF_FFFF], (number, at)
        device._write_all(Area.CODE, 0, WORDS)
        assert device._read_wide(Area.CODE.address(0), 4) == WORDS


@pytest.mark.long
def test_steps_beyond_32_bits(buses: Callable[[Format], SimulatedBus]) -> None:
    device, program = CoprocessorDriver(buses(Q32)), square(Q32)
    device.load(program)
    assert (device.run(0).ended, device.run(0).retired) == (Ended.LIMIT, 0)
    outcome = device.run((1 << 32) + 1)
    assert (outcome.ended, outcome.pc, outcome.retired) == (Ended.HALTED, program.finish, 6)


@reversible
def f(y: fixed, x: fixed) -> None:
    y += x * x


@pytest.mark.long
def test_a_limit_on_a_device(buses: Callable[[Format], SimulatedBus]) -> None:
    with pytest.raises(BusError, match=r"the run ended at PC = \d: limit"):
        run_on_hardware(f, 0.0, 1.5, device=CoprocessorDriver(buses(Q32)), max_steps=2)


@pytest.mark.long
def test_arguments_beyond_the_hardware(buses: Callable[[Format], SimulatedBus]) -> None:
    device = CoprocessorDriver(buses(Q32))
    device.load(square(Q32))
    for steps in (-1, 1 << 64, 2.5, True, "many"):
        for call in (
            partial(device.run, steps), partial(device.gradient, 1, steps=steps), partial(run, square(Q32), steps=steps),
        ):  # fmt: skip
            with pytest.raises(
                InputError, match=r"RG1009.*the number of steps .* integer from 0 to 18446744073709551615"
            ):
                call()
    for call in (
        partial(device.gradient, 5), partial(device.gradient, -1), partial(device.gradient, 256, register=True),
        partial(device.gradient, 1, scale=15), partial(device.gradient, 1, scale=-17),
        partial(run, square(Q32), loss=Place(1), scale=10**12),
        partial(run_on_hardware, f, 0.0, 1.0, max_steps=1 << 64, device=device),
    ):  # fmt: skip
        with pytest.raises(InputError, match="RG1009"):
            call()
    assert device.registers() == [0] * 256


class Deaf(Bus):
    """A bus with something else behind it."""

    def read(self, address: int) -> int:
        return 0xDEADBEEF

    def write(self, address: int, word: int) -> None:
        raise AssertionError

    def idle(self) -> None:
        raise AssertionError


def test_no_co_processor() -> None:
    with pytest.raises(BusError, match="is no co-processor: it says 0xdeadbeef"):
        CoprocessorDriver(Deaf())


# ---------------------------------------------------------------- a serial line


class Line:
    """The far end of a serial line, as docs/coprocessor.md describes it, with a bus behind it."""

    def __init__(self, bus: Bus) -> None:
        self.bus, self.back = bus, b""
        self.sent = 0

    def write(self, data: bytes) -> None:
        self.sent += len(data)
        kind, address = data[:1], int.from_bytes(data[1:5], "little")
        if kind in b"RW":
            assert len(data) == {b"R": 5, b"W": 9}[kind]
            self.one(kind, address, data[5:])
            return
        count, step = int.from_bytes(data[5:7], "little") or 1 << 16, int.from_bytes(data[7:8], "little", signed=True)
        words, before = data[8:], self.back
        assert len(words) == (4 * count if kind == b"w" else 0)
        for i in range(count):
            self.one(kind.upper(), address + i * step, words[4 * i : 4 * i + 4])
            if kind == b"r" and self.back[-1:] == b"E":
                break
        if kind == b"w":
            self.back = before + (b"K" if self.back == before + b"K" * count else b"E")

    def one(self, kind: bytes, address: int, word: bytes) -> None:
        try:
            if kind == b"R":
                self.back += b"K" + self.bus.read(address).to_bytes(4, "little")
            else:
                self.bus.write(address, int.from_bytes(word, "little"))
                self.back += b"K"
        except BusError:
            self.back += b"E"

    def read(self, size: int) -> bytes:
        found, self.back = self.back[:size], self.back[size:]
        return found


@pytest.mark.long
def test_over_a_serial_line(buses: Callable[[Format], SimulatedBus]) -> None:
    line = Line(buses(Q32))
    device, program = CoprocessorDriver(SerialBus(line)), square(Q32)
    device.load(program)
    found = device.gradient(1)
    machine, memory, _ = reference(program, 1)
    assert (found.memory, found.memory_cotangents) == (memory, list(machine.memory_cotangents))
    with pytest.raises(BusError, match="refused reading 0x70000000"):
        device.bus.read(0x7000_0000)
    assert not line.back


@pytest.mark.parametrize(
    ("answer", "said"),
    [(b"", "nothing came back"), (b"?", r"b'\?' came back"), (b"K\1\2", "stops after 3 of 5 bytes")],
)
def test_a_line_that_says_something_else(answer: bytes, said: str) -> None:
    class Mute(Line):
        def write(self, data: bytes) -> None:
            self.back = answer

    with pytest.raises(BusError, match=said):
        SerialBus(Mute(Deaf())).read(0)


class WiredLine:
    """A line to a SerialCoprocessor in the simulator, bit by bit."""

    BIT = 4

    def __init__(self) -> None:
        self._top = SerialCoprocessor(Parameters(Format(8, 4), 16, 4), self.BIT)
        #: levels of the line to come, a bit's time each; bytes that came back
        self._levels: list[int] = []
        self._in: list[int] = []
        self._simulator = Simulator(self._top)
        self._simulator.add_clock(1e-6)
        self._simulator.add_testbench(self._bench)

    async def _bench(self, ctx: Any) -> None:
        """Both ways at once: a level for each bit, and a look in the middle of each."""
        clock = since = 0
        seen: list[int] = []
        while True:
            if clock % self.BIT == 0:
                ctx.set(self._top.rx, self._levels.pop(0) if self._levels else 1)
            level = ctx.get(self._top.tx)
            if seen or not level:
                if since % self.BIT == self.BIT // 2:
                    seen.append(level)
                elif not seen:
                    seen = []
                since += 1
                if since == 10 * self.BIT:
                    assert (seen[0], seen[9]) == (0, 1)
                    self._in.append(sum(bit << i for i, bit in enumerate(seen[1:9])))
                    seen, since = [], 0
            clock += 1
            await ctx.tick()

    def write(self, data: bytes) -> None:
        for byte in data:
            self._levels += [0, *(byte >> i & 1 for i in range(8)), 1]

    def read(self, size: int) -> bytes:
        for _ in range(40_000):
            if len(self._in) >= size:
                break
            self._simulator.advance()
        found, self._in = self._in[:size], self._in[size:]
        return bytes(found)


@pytest.mark.long
def test_a_real_line() -> None:
    device = CoprocessorDriver(SerialBus(WiredLine()))
    assert (device.format, device.code_words, device.data_words) == (Format(8, 4), 16, 4)
    device.set_registers({5: 77})
    assert device.bus.read(Area.REGISTERS.value << 28 | 5 << 3) == 77
    with pytest.raises(BusError, match="refused"):
        device.bus.read(0x7000_0000)
