"""Bits of state that each cycle overwrites: small machines by hand, linear machines by counting, and the core against Amaranth's simulator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from math import log2
from typing import Any

import pytest
from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.hdl.core.core import Core
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.hdl.simulation.meters import BitMachine, ErasureMeter, Overwrites
from retrograd.hdl.simulation.runs import Place, orders_for, parameters_for, run
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.gates import FLIP_FLOPS, MEMORY_BITS
from retrograd.simulator.energy.pricing import gates_for

import retrograd as rg
from retrograd import fixed, reversible
from retrograd.hardware import logic_loss, run_on_hardware, state_entropies


class Clocked(wiring.Component):
    """Two registers of four bits, with the next values that a function gives, and an input."""

    def __init__(self, following: Callable[[Any, Any, Any], tuple[Any, Any]], a: int, b: int) -> None:
        self.following, self.a, self.b = following, Signal(4, init=a), Signal(4, init=b)
        super().__init__({"given": In(4), "seen": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        after = self.following(self.a, self.b, self.given)
        m.d.sync += [self.a.eq(after[0]), self.b.eq(after[1])]
        m.d.comb += self.seen.eq(Cat(self.a, self.b))
        return m


#: next values -> (overwritten, lost, toggled) in a cycle from a = 0b0101, b = 0b0011, with the input 0b1110
BY_HAND = {
    "hold": (lambda a, b, i: (a, b), (0, 0, 0)),
    "load": (lambda a, b, i: (i, b), (4, 4, 3)),
    "clear": (lambda a, b, i: (0, b), (4, 4, 2)),
    "copy": (lambda a, b, i: (b, b), (4, 4, 2)),
    "exchange": (lambda a, b, i: (b, a), (8, 0, 4)),
    # One bit of b is wired to itself: the old bit 0 of a is gone.
    "exchange, one wire wrong": (lambda a, b, i: (b, Cat(b[0], a[1:])), (7, 1, 4)),
    "shift in": (lambda a, b, i: (Cat(i[0], a[:3]), b), (4, 1, 4)),
    "rotate": (lambda a, b, i: (Cat(a[3], a[:3]), b), (4, 0, 4)),
    "add": (lambda a, b, i: (a + b, b), (0, 0, 3)),
    "exclusive or": (lambda a, b, i: (a ^ b, b), (0, 0, 2)),
    "both exclusive or": (lambda a, b, i: (a ^ b, a ^ b), (0, 4, 4)),
    "count": (lambda a, b, i: (a + 1, b), (0, 0, 2)),
    # Where a bit of b is 0, the bit of a is gone: two bits.
    "and": (lambda a, b, i: (a & b, b), (2, 2, 1)),
    "choice by a known bit": (lambda a, b, i: (Mux(b[0], a, i), b), (0, 0, 0)),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_small_machines_by_hand(name: str) -> None:
    following, expected = BY_HAND[name]
    machine = BitMachine(Clocked(following, 0b0101, 0b0011))
    machine.set(machine_input(machine), 0b1110)
    found = Overwrites()
    machine.tick(found)
    assert (found.bits, found.cycles, found.each) == (8, 1, [expected])
    assert (found.overwritten, found.lost, found.toggled) == expected


def machine_input(machine: BitMachine) -> Any:
    (signal,) = (signal for signal in machine.netlist._netlist.signals if signal.name == "given")
    return signal


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 255), min_size=8, max_size=8), st.integers(0, 255))
def test_linear_machines_lose_the_entropy_that_counting_gives(rows: list[int], state: int) -> None:
    """H(s | f(s)) of uniform bits is 8 − log₂ |image|, in every state."""

    def following(a: Any, b: Any, given: Any) -> tuple[Any, Any]:
        bits = [(Cat(a, b) & row).xor() for row in rows]
        return Cat(bits[:4]), Cat(bits[4:])

    image = {tuple((word & row).bit_count() & 1 for row in rows) for word in range(256)}
    found = Overwrites()
    BitMachine(Clocked(following, state & 15, state >> 4)).tick(found)
    assert found.lost == 8 - log2(len(image))
    assert found.overwritten == sum(not row >> k & 1 for k, row in enumerate(rows))


class Storage(wiring.Component):
    """A memory of four words of four bits."""

    def __init__(self) -> None:
        super().__init__({"at": In(2), "to": In(2), "word": In(4), "read": In(1), "write": In(1), "seen": Out(4)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = memory = Memory(shape=4, depth=4, init=[5, 6, 7, 8])
        read, write = memory.read_port(), memory.write_port()
        m.d.comb += [
            read.addr.eq(self.at), read.en.eq(self.read), self.seen.eq(read.data),
            write.addr.eq(self.to), write.data.eq(self.word), write.en.eq(self.write),
        ]  # fmt: skip
        return m


@pytest.mark.parametrize(
    ("inputs", "expected", "words"),
    [
        ({}, (0, 0, 0), [5, 6, 7, 8]),
        ({"read": 1, "at": 2}, (4, 4, 3), [5, 6, 7, 8]),
        ({"write": 1, "to": 1, "word": 9}, (4, 4, 4), [5, 9, 7, 8]),
        # The word that is overwritten is read in the same cycle: the lost word is that which the port held.
        ({"write": 1, "to": 1, "word": 9, "read": 1, "at": 1}, (8, 4, 6), [5, 9, 7, 8]),
        ({"write": 1, "to": 1, "word": 9, "read": 1, "at": 3}, (8, 8, 5), [5, 9, 7, 8]),
    ],
)
def test_memories(inputs: dict[str, int], expected: tuple[int, ...], words: list[int]) -> None:
    storage = Storage()
    machine = BitMachine(storage)
    for name, word in inputs.items():
        machine.set(getattr(storage, name), word)
    found = Overwrites()
    machine.tick(found)
    assert (found.overwritten, found.lost, found.toggled) == expected
    assert machine.memory("words") == words
    assert machine.get(storage.seen) == ([5, 6, 7, 8][inputs["at"]] if "read" in inputs else 0)


class Operators(wiring.Component):
    """Every operator of a netlist, on two words of four bits."""

    def __init__(self) -> None:
        super().__init__({"x": In(4), "y": In(4), "out": Out(160)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        x, y = self.x, self.y
        s, t = x.as_signed(), y.as_signed()
        matched = Signal()
        with m.Switch(x):
            with m.Case("1--0", "0101"):
                m.d.comb += matched.eq(1)
            with m.Case("01--"):
                m.d.comb += matched.eq(y[0])
        picked = Signal(4)
        m.d.comb += picked.bit_select(y[:2], 2).eq(x)
        found = [
            (x + y)[:5], (x - y)[:4], (x * y)[:8], (s * t)[:8], x & y, x | y, x ^ y, ~x, (-x)[:4], x << y[:2], x >> y[:3], s >> y[:3],
            x == y, x != y, x < y, x <= y, x > y, x >= y, s < t, s <= t, s > t, s >= t, x.any(), x.all(), x.xor(), x.bool(),
            Mux(x[0], x, y), matched, picked, x.bit_select(y[:2], 2), x.word_select(y[0], 2),
            Array([x, y, x ^ 5])[y[:2]],
        ]  # fmt: skip
        m.d.comb += self.out.eq(Cat(found))
        return m


def test_operators_are_those_of_amaranth() -> None:
    component = Operators()
    expected: list[int] = []

    async def bench(ctx: Any) -> None:
        for word in range(256):
            ctx.set(component.x, word & 15)
            ctx.set(component.y, word >> 4)
            await ctx.delay(1e-9)
            expected.append(ctx.get(component.out))

    simulator = Simulator(component)
    simulator.add_testbench(bench)
    simulator.run()
    machine = BitMachine(component)
    found = []
    for word in range(256):
        machine.set(component.x, word & 15)
        machine.set(component.y, word >> 4)
        found.append(machine.get(component.out))
    assert found == expected


PROGRAM = """
        .format 8, 4
        .memory 2
        .text
        start
top:    from.ne r1, r0, bottom
        add     r1, 1
        fmul.add r3, r1, r2
bottom: goto.ne r1, r4, top
        fdiv.add r5, r3, r2
        exch    r3, [r0 + 1]
        finish
"""


@pytest.mark.long
def test_the_core_on_gates_does_what_the_machine_does() -> None:
    program = rg.assemble(PROGRAM)
    there, back = run(program, registers={2: 40, 4: 2}, loss=Place(1), erasure=True)
    machine = rg.Machine(program)
    machine.registers[2], machine.registers[4] = 40, 2
    machine.run()
    assert (there.registers, there.memory, there.cycles) == (machine.registers, machine.memory, machine.cycles)
    machine.differentiating = True
    machine.memory_cotangents[1] = 1 << 4
    machine.turn()
    machine.run()
    assert (back.cotangents, back.memory_cotangents) == (machine.cotangents, machine.memory_cotangents)
    assert there.overwrites is not None
    assert back.overwrites is not None
    for one in (there.overwrites, back.overwrites):
        assert one.bits == sum(bits for bits, _, _ in one.by_part.values())
        assert one.overwritten == sum(overwritten for _, overwritten, _ in one.by_part.values())
        assert one.toggled == sum(toggled for _, _, toggled in one.by_part.values())
        assert [sum(each) for each in zip(*one.each, strict=True)] == [one.overwritten, one.lost, one.toggled]
        assert one.cycles == len(one.each)
        # The instruction set loses nothing in this program; the core overwrites bits in each of its cycles.
        assert min(lost for _, lost, _ in one.each) > 0
    cotangents = "memory registers.cotangents"
    assert back.overwrites.by_part[cotangents][1] > there.overwrites.by_part[cotangents][1] == 0


@pytest.mark.long
@pytest.mark.parametrize("w", ["8, 4", "32, 16"])
def test_the_core_on_gates_retires_what_the_simulated_core_does(w: str) -> None:
    program = rg.assemble(PROGRAM.replace("8, 4", w))
    orders = orders_for(program, registers={2: 40, 4: 2}, loss=Place(1))
    orders = [dataclasses.replace(order, last_only=False) for order in orders]
    assert ErasureMeter(Core(parameters_for(program))).run(orders) == Simulation(Core(parameters_for(program))).run(
        orders
    )


@pytest.mark.long
def test_a_write_of_a_register_is_one_word() -> None:
    program = rg.assemble(".format 8, 4\n.memory 1\n.text\nstart\nadd r1, 5\nadd r2, 6\nfinish")
    (found,) = run(program, erasure=True)
    assert found.overwrites is not None
    # Two instructions write a word of 8 bits each, and toggle 2 bits each.
    assert found.overwrites.by_part["memory registers.words"] == [0, 16, 4]
    assert (
        found.overwrites.cycles == found.clock + 3
    )  # the instruction that halts has three cycles, and does not retire


@reversible
def square(y: fixed, x: fixed) -> None:
    y += x * x


@reversible
def forgotten(y: int, x: int) -> None:
    """x := 0. Later instructions overwrite the latches that still hold x."""
    t = x & 1
    rg.swap(t, x)
    rg.erase(t)
    for i in range(4):
        y += i


@reversible
def exchanged(y: int, x: int) -> None:
    rg.swap(y, x)
    for i in range(4):
        x += i


@pytest.mark.long
def test_a_function_with_its_gradient() -> None:
    found = run_on_hardware(square, 0.0, 1.5, loss="y", format="Q4.4", erasure=True)
    assert found.values == rg.run(square, 0.0, 1.5, format="Q4.4").values
    assert found.gradients.x == 3.0
    assert len(found.overwrites) == 2
    assert all(one.overwritten > one.lost > one.toggled for one in found.overwrites)
    with pytest.raises(InputError, match="RG1009"):
        run_on_hardware(square, 0.0, 1.5, format="Q4.4", erasure=True, vcd="run.vcd")
    with pytest.raises(InputError, match="core small only"):
        run_on_hardware(square, 0.0, 1.5, format="Q4.4", erasure=True, core="fast")


def test_logic_loses_more_than_registers() -> None:
    for w in (rg.Format(32, 16), rg.Format(64, 32)):
        gates = gates_for(w)
        assert gates is not None
        cells = gates.cells()
        registers, memory = cells.pop(FLIP_FLOPS), cells.pop(MEMORY_BITS)
        assert registers < memory
        # A gate of two inputs loses between 1 bit, as XOR does, and 1.19 bits, as AND does.
        gates_of_two = sum(n for kind, n in cells.items() if kind not in ("NOT", "BUF"))
        loss = logic_loss(w)
        assert loss is not None
        assert registers < gates_of_two < loss < 1.19 * gates_of_two
    assert logic_loss(rg.Format(16, 8)) is None


@pytest.mark.long
def test_the_state_keeps_the_arguments_of_a_reversible_function() -> None:
    found = state_entropies(square, [(0.0, x / 4) for x in range(4)], format="Q4.4")
    assert set(found) == {2.0}
    assert len(found) > 10


@pytest.mark.long
def test_the_state_loses_the_bits_that_are_erased() -> None:
    """4 and 8 have as many ones, so that the counter of toggled bits is the same for both."""
    found = state_entropies(forgotten, [(0, 4), (0, 8)], format="Q4.4")
    assert found[0] == 1.0
    assert found[-1] == 0.0
    assert found == sorted(found, reverse=True)
    assert state_entropies(forgotten, []) == []


@pytest.mark.long
def test_a_core_that_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the two lowest bits of each word that is written to a memory are cleared."""
    rows = [(0, 5), (0, 6)]
    assert {*state_entropies(exchanged, rows, format="Q4.4")} == {1.0}
    plain = BitMachine._write

    def forget(self: BitMachine, v: Any, ones: int) -> Any:
        written = plain(self, v, ones)
        for columns in written.values():
            columns[:2] = 0, 0
        return written

    monkeypatch.setattr(BitMachine, "_write", forget)
    assert state_entropies(exchanged, rows, format="Q4.4")[-1] == 0.0


def test_inputs_begin_as_in_the_simulator_of_amaranth() -> None:
    """The sizes of the memories are inputs whose values at reset are not 0: an order without sizes leaves them."""
    program = rg.assemble(".format 8, 4\nstart\nadd r1, 3\nst.add [r0 + 1], r1\nfinish")
    orders = orders_for(program)
    core = Core(parameters_for(program))
    (found,) = ErasureMeter(core).run(orders)
    assert found == Simulation(core).run(orders)[0]
    assert found.halted
