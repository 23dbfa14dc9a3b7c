"""The core barrel behind its bus: rows of a batch, threads by number, status of all, functions of the language."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest
from retrograd.hdl.bus.device import CoprocessorDriver, Ended
from retrograd.hdl.bus.links import BusError, SimulatedBus, UnfinishedRun
from retrograd.hdl.bus.register_map import UNLIMITED, Area, HostRegister
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.runs import run_batch
from retrograd.isa.diagnostics import InputError
from retrograd.isa.microarchitecture.micro_operations import barrel_units
from retrograd.isa.microarchitecture.schedule import total_cycles
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine, Trap
from support import bench

import retrograd as rg
from retrograd.hardware import run_batch_on_hardware, run_on_hardware

Q8, Q32 = Format(8, 4), Format(32, 16)
THREADS = 8
#: y += n + … + 1, then 1 / d
PROGRAM = rg.assemble(
    """
    .format 8, 4
    .data
    n:      .word 0
    d:      .word 0
    y:      .word 0
    .text
            start
            ld.add  r1, [r0 + n]
            ld.add  r3, [r0 + d]
    top:    from.ne r2, r0, bottom
            imm.add r2, 1
            mov.add r4, r2
    bottom: goto.ne r2, r1, top
            fdiv.add r5, r2, r3
            st.add  [r0 + y], r4
            finish
    """
)
#: n, d and y of each thread; the second one divides by 0
ROWS = [[3, 16, 0], [1, 0, 0], [2, 32, 0], [9, 16, 0], [1, 16, 0], [5, 48, 0], [4, 16, 0], [7, 16, 0]]


def made(dma: bool = False, slots: int = 1) -> CoprocessorDriver:
    return CoprocessorDriver(SimulatedBus(Parameters(Q8, 64, 16, core="barrel", lanes=THREADS, slots=slots, dma=dma)))


@cache
def device(slots: int = 1) -> CoprocessorDriver:
    """A co-processor for several tests: `load` leaves nothing of an earlier one."""
    return made(slots=slots)


def cycles_of(machine: Machine, slots: int) -> int:
    return total_cycles(machine.executions(), machine.format, barrel_units(slots=slots))


def masks(d: CoprocessorDriver) -> tuple[int, ...]:
    return tuple(
        d._read(slot) for slot in (HostRegister.RUNNING_LANES, HostRegister.HALTED_LANES, HostRegister.TRAPPED_LANES)
    )


def machine_of(row: list[int]) -> Machine:
    machine = rg.Machine(PROGRAM)
    machine.core = "barrel"
    machine.load(0, row)
    return machine


def ended(row: list[int]) -> Machine:
    """The machine after its run, to the end or to a trap."""
    machine = machine_of(row)
    with suppress(Trap):
        machine.run()
    return machine


def pcs(d: CoprocessorDriver) -> list[int]:
    return [Format(64, 32).signed(d._read(HostRegister.PC)) for thread in range(THREADS) if d.select(thread) is None]


def rows_ends_and_status(d: CoprocessorDriver, slots: int = 1) -> None:
    assert (d.lanes, d.format) == (THREADS, Q8)
    d.load_batch(PROGRAM, ROWS)
    found = d.run_batch()
    trapped = 0b10
    assert [run.code for run in found.lanes] == [None, "RG0402", *[None] * 6]
    assert masks(d) == (0, 0xFF ^ trapped, trapped)
    assert d._read(HostRegister.INTERRUPT_PENDING) == HostRegister.INTERRUPT_PENDING.field("trapped").mask
    # Each thread counts its own, as many cycles as the model has for it alone.
    for row, run, memory in zip(ROWS, found.lanes, d.memories(), strict=True):
        machine = ended(row)
        assert (run.retired, run.cycles, run.pc) == (machine.retired, cycles_of(machine, slots), machine.pc)
        assert memory == machine.memory
    assert d._read(HostRegister.ISSUED) == found.issued == sum(run.retired for run in found.lanes)
    # The batch takes the cycles of the longest thread, and those to fill and to empty the pipeline.
    assert 0 < found.cycles - max(run.cycles for run in found.lanes) < 50
    # Back to the start: the thread that trapped goes back from there.
    d.turn()
    back = d.run_batch()
    assert [run.ended for run in back.lanes] == [Ended.HALTED] * THREADS
    assert [memory[:3] for memory in d.memories()] == ROWS
    assert d._read(HostRegister.INTERRUPT_PENDING) == HostRegister.INTERRUPT_PENDING.field("halted").mask
    # Each thread stops after its own number of instructions, and one that goes on alone leaves the marks of the others.
    d.turn()
    d.select(3)
    assert d.run(2).retired == 2
    assert masks(d) == (0, 0xFF ^ 0b1000, 0)
    d.load_batch(PROGRAM, ROWS)
    assert [run.retired for run in d.run_batch(4).lanes] == [4] * THREADS


def one_thread_alone(d: CoprocessorDriver) -> None:
    d.load_batch(PROGRAM, ROWS)
    d.select(1)
    assert d.run(4).retired == 4
    assert [mask >> 1 & 1 for mask in masks(d)] == [0, 0, 0]
    start = PROGRAM.start
    there = machine_of(ROWS[1])
    there.run(4)
    assert pcs(d) == [there.pc if thread == 1 else start for thread in range(THREADS)]
    d.select(1)
    d.turn()
    assert d.run().ended is Ended.HALTED
    d.set_registers({9: 77})
    d.select(0)
    assert (d.registers()[9], d.run(0).retired) == (0, 0)
    d.select()
    d.turn()
    d.select(1)
    assert d.registers()[9] == 77
    # All threads have turned round again, thread 1 a third time.
    directions = [d._read(HostRegister.DIRECTION) for thread in range(THREADS) if d.select(thread) is None]
    assert directions == [0 if thread == 1 else 1 for thread in range(THREADS)]
    d.select()
    assert [run.retired for run in d.run_batch(3).lanes] == [0, 3, *[0] * 6]
    with pytest.raises(InputError, match="the lane is 8"):
        d.select(THREADS)
    with pytest.raises(InputError, match=r"the co-processor 8 lanes"):
        d.load_batch(PROGRAM, [[1]] * 9)


@pytest.mark.parametrize("slots", [1, 2])
def test_each_thread_has_a_row_an_end_and_a_status(slots: int) -> None:
    rows_ends_and_status(device(slots), slots)


@pytest.mark.parametrize("slots", [1, 2])
def test_one_thread_alone(slots: int) -> None:
    """Commands and words for one thread reach no other; a limit is that of each thread."""
    one_thread_alone(device(slots))


def words_of_all_threads(d: CoprocessorDriver) -> None:
    """Words for all threads, for one thread, and zeros: in each memory, by transfers and by copies."""
    areas, n, others = (
        (Area.REGISTERS, Area.REGISTER_COTANGENTS, Area.DATA, Area.DATA_COTANGENTS),
        9,
        (0, 6, THREADS - 1),
    )
    d.load(PROGRAM)
    d._set(HostRegister.REGISTER_SIZE, n)
    d._set(HostRegister.DATA_SIZE, n)
    for area in areas:
        d.select()
        d._write_all(area, 0, range(n))
        d.select(3)
        d._write_all(area, 0, range(3, 3 + n))
    for thread in (3, *others):
        d.select(thread)
        for area in areas:
            assert d._read_all(area, 0, n) == [i + 3 * (thread == 3) for i in range(n)]
    d.select(3)
    d._command("zero_words")
    d._finished()
    for thread in (3, *others):
        d.select(thread)
        for area in areas:
            assert any(d._read_all(area, 0, n)) == (thread != 3 or area not in (Area.DATA, Area.REGISTERS))
    d.select()
    d._command("zero_words", "zero_cotangents")
    d._finished()
    for thread in (3, *others):
        d.select(thread)
        for area in areas:
            assert not any(d._read_all(area, 0, n))


@pytest.mark.parametrize("slots", [pytest.param(1, marks=pytest.mark.long), 2])
def test_words_of_all_threads(slots: int) -> None:
    """With two slots, words of registers stand in another bank than their cotangents."""
    words_of_all_threads(device(slots))


@pytest.mark.long
def test_copies_reach_all_threads_or_one() -> None:
    d = made(dma=True)
    words_of_all_threads(d)
    rows_ends_and_status(d)


def status_is_read_during_copies() -> None:
    """In each cycle between two words of a copy to all threads."""
    n = 16
    memory = bench.Memory([3 * i & Q8.mask for i in range(n)], 0)

    async def script(bus: Any) -> None:
        for delay in range(1, THREADS + 1):
            for slot, word in (("DMA_ADDRESS", 0), ("POINTER", Area.DATA.address(0)), ("DMA_LENGTH", n)):
                await bus.set(HostRegister[slot], word)
            await bus.set(HostRegister.LANE, HostRegister.LANE.field("all").mask)
            await bus.transfer(HostRegister.CONTROL.address, HostRegister.CONTROL.field("copy_in").mask)
            await bus.ctx.tick().repeat(delay)
            for _ in range(4):
                # The bench fails where an answer takes a few cycles more than a read.
                assert bench.status(await bus.get(HostRegister.STATUS))["copying"]
            await bus.finished()
            for thread in (0, THREADS - 1):
                await bus.set(HostRegister.LANE, thread)
                assert await bus.read(Area.DATA, 5) == 15

    p = Parameters(Q8, 64, n, core="barrel", lanes=THREADS, dma=True)
    bench.on_bus(p, script, memory=memory, fresh=True)


def test_status_is_read_during_copies_to_all_threads() -> None:
    status_is_read_during_copies()


def test_threads_that_the_host_stops_go_on_later() -> None:
    """Stopped in the middle of a batch, and started again: each thread is the reference machine."""
    d, rows = device(), [[20 + thread, 16, 0] for thread in range(THREADS)]
    d.load_batch(PROGRAM, rows)
    d._set(HostRegister.STEPS, UNLIMITED)
    done = 0
    for transfers in (1, 5, 12):
        d._command("run")
        for _ in range(transfers):
            assert d._read(HostRegister.RUNNING_LANES) == 0xFF
        # The state of a thread is not shown while others have their turns.
        for slot in (HostRegister.PC, HostRegister.BR, HostRegister.CYCLES, HostRegister.ERASED):
            with pytest.raises(BusError):
                d._read(slot)
        d._command("stop")
        d._finished()
        assert masks(d) == (0, 0, 0)
        for thread, row in enumerate(rows):
            d.select(thread)
            machine = machine_of(row)
            done += machine.run(d._read(HostRegister.RETIRED)).steps
            assert Format(64, 32).signed(d._read(HostRegister.PC)) == machine.pc
            assert d.registers() == machine.registers
        d.select()
    assert done > 0
    d.run_batch()
    for row, memory in zip(rows, d.memories(), strict=True):
        machine = ended(row)
        assert memory == machine.memory


@rg.reversible
def counted(y: float, x: float, n: int) -> None:
    for _ in range(n):
        y += x * x


@pytest.mark.long
@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("on_bus", [False, True])
def test_a_function_on_a_batch(on_bus: bool, slots: int) -> None:
    """Values and gradients are those of each element, in parts of as many elements as there are threads."""
    x, n = np.array([0.5, 1.5, -2.0, 1.0, 0.25, -0.5, 3.0, 0.0, 2.5]), np.array([2, 0, 1, 3, 1, 1, 2, 2, 1])
    how: dict[str, Any] = {"slots": slots}
    if on_bus:
        bus = SimulatedBus(Parameters(Q32, 64, 16, core="barrel", lanes=THREADS, slots=slots))
        how = {"device": CoprocessorDriver(bus)}
    found = run_batch_on_hardware(counted, 1.0, x, n, in_axes=(None, 0, 0), loss="y", format=Q32, **how)
    single = rg.run_batch(counted, 1.0, x, n, in_axes=(None, 0, 0), format=Q32)
    assert found.values.y.tolist() == single.values.y.tolist()
    expected = rg.vmap(rg.grad(counted, "x"), in_axes=(None, 0, 0), format=Q32)(1.0, x, n)
    assert found.gradients.x.tolist() == expected.tolist()
    assert found.gradients.x.tolist() == (2 * n * x).tolist()
    assert found.issued == found.steps.sum()
    one = run_batch_on_hardware(counted, 1.0, x, n, in_axes=(None, 0, 0), loss="y", format=Q32)
    # A device answers its host a few cycles apart.
    assert (found.backward_cycles < one.backward_cycles - 100) == (slots > 1)


def test_a_batch_that_the_core_cannot_have() -> None:
    given: tuple[Any, ...] = (0, 7, 17, 8.0, True)
    for lanes in given:
        with pytest.raises(InputError, match="not an integer from 8 to 16"):
            run_batch_on_hardware(counted, np.zeros(1), np.ones(1), np.ones(1, int), lanes=lanes, core="barrel")
    given = (0, 3, 2.0, True, None)
    for slots in given:
        with pytest.raises(InputError, match="not an integer from 1 to 2"):
            run_batch_on_hardware(counted, np.zeros(1), np.ones(1), np.ones(1, int), slots=slots)
    for core, hint in (("fast", "run_on_hardware"), ("slow", "barrel"), ("lanes", "barrel takes the place of lanes")):
        with pytest.raises(InputError, match=f"no core `{core}`") as raised:
            run_batch_on_hardware(counted, np.zeros(1), np.ones(1), np.ones(1, int), core=core)
        assert hint in str(raised.value.diagnostics[0].hint)
    with pytest.raises(InputError, match="the core barrel executes batches"):
        run_on_hardware(counted, 0.0, 1.0, 1, core="barrel")


@pytest.mark.long
def test_an_element_that_does_not_end_is_named() -> None:
    with pytest.raises(UnfinishedRun, match="of element 1 ended"):
        run_batch_on_hardware(counted, np.zeros(2), np.array([0.5, 10.0]), np.array([1, 3]), format="Q8.8")
    with pytest.raises(UnfinishedRun, match="more than 9 instructions"):
        run_batch_on_hardware(counted, np.zeros(1), np.ones(1), np.array([3]), format="Q8.8", max_steps=9)


@rg.reversible
def with_a_constant(y: rg.fixed, x: rg.fixed, z: rg.fixed):
    """The cotangent of 0.01 is that of y times x; cotangents of z are z times as large."""
    y += x * 0.01
    y += z * z


#: cotangents that hold at the first scale of Q16.16, 8; only at 4; at 8, but for the constant's, which holds at 0
SCALED = np.array([[1.0, 0.5], [1.0, 100.0], [3000.0, 0.5], [0.5, 0.25]])


@pytest.mark.long
def test_gradients_begin_at_the_scale_of_each_element_and_of_its_constants() -> None:
    plain = [rg.gradient_report(with_a_constant, format=Q32)(0.0, *row).scale for row in SCALED]
    assert plain == [8, 4, 8, 8], "the case shows nothing"
    x, z = SCALED.T
    own, one_by_one = np.array([8, 4, 0, 8]), []
    for row, k in zip(SCALED, own, strict=True):
        found = run_on_hardware(with_a_constant, 0.0, *row, loss="y", format=Q32)
        assert found.scale == k
        assert found.gradients == rg.grad(with_a_constant, scale=int(k), format=Q32)(0.0, *row)
        one_by_one.append(tuple(found.gradients))
    for over in (None, CoprocessorDriver(SimulatedBus(Parameters(Q32, 64, 16, core="barrel", lanes=THREADS)))):
        batch = run_batch_on_hardware(
            with_a_constant, 0.0, x, z, in_axes=(None, 0, 0), loss="y", format=Q32, device=over
        )
        assert (batch.scales == own).all()
        assert np.array_equal(np.column_stack(batch.gradients), one_by_one)
        assert np.array_equal(
            batch.values.y, rg.run_batch(with_a_constant, 0.0, x, z, in_axes=(None, 0, 0), format=Q32).values.y
        )
        assert (batch.steps == batch.steps[0]).all()
        assert batch.backward_cycles > batch.cycles


@pytest.mark.long
def test_an_overflow_at_every_scale_names_its_element() -> None:
    x, z = np.array([[1.0, 0.5], [1.0, 200.0]]).T
    with pytest.raises(UnfinishedRun, match="element 1 ended") as raised:
        run_batch_on_hardware(with_a_constant, 0.0, x, z, in_axes=(None, 0, 0), loss="y", format=Q32)
    assert raised.value.trap == "RG0404"


#: module, the text there, the planted text
FAULTS = [
    ("bus.host_interface", "(thread != last)", "(thread < last - 1)"),
    ("bus.host_interface", "[self.limit.eq(limit), self.fresh.eq(-1)]", "[self.limit.eq(limit)]"),
    ("bus.host_interface", "Mux(fresh, self.limit, read.data)", "self.limit"),
    ("bus.host_interface", "halted.eq(halted & ~commanded)", "halted.eq(0)"),
    ("bus.host_interface", "waits = ~waited[-1]", "waits = in_window & ~waited[-1]"),
    ("bus.host_interface", "Mux(each, thread, self.lane.index)", "Mux(each, thread, 0)"),
    ("core.barrel", "number + later(retires10, 1, reset=True)", "number + later(begins0, 1)"),
    # two slots: the host reads and writes the other bank, or the temporaries
    ("core.two_slots", "Space.REGISTER_COTANGENTS)[k]] = found", "Space.REGISTER_COTANGENTS)[1 - k]] = found"),
    ("core.two_slots", "(window.write_space == space), writes", "(window.write_space != space), writes"),
    (
        "core.two_slots",
        "host = Cat(window.write_address[:8], Const(_REGISTERS, 1)",
        "host = Cat(window.write_address[:9]",
    ),
]


@pytest.mark.long
def test_a_read_that_waits_for_all_threads_is_found(planted: Callable[[str, str, str], type]) -> None:
    planted(
        "bus.host_interface",
        "begins & ~self.accepted.valid",
        "begins & ~(self.accepted.valid | self.goes_on)",
    )
    with pytest.raises(AssertionError, match="hangs"):
        status_is_read_during_copies()


@pytest.mark.long
@pytest.mark.parametrize(("unit", "old", "new"), FAULTS)
def test_planted_faults_are_found(planted: Callable[[str, str, str], type], unit: str, old: str, new: str) -> None:
    planted(unit, old, new)
    slots = 2 if unit == "core.two_slots" else 1
    d = made(slots=slots)

    def all_checked() -> None:
        one_thread_alone(d)
        rows_ends_and_status(d, slots)
        words_of_all_threads(d)

    with pytest.raises((AssertionError, BusError)):
        all_checked()


@pytest.mark.parametrize("slots", [1, 2])
def test_cycles_are_those_of_the_schedule(slots: int) -> None:
    """`retrograd run --cycles --core barrel` counts the cycles that each thread takes beside others."""
    (ran,) = run_batch(PROGRAM, [dict(enumerate(row)) for row in ROWS], THREADS, slots=slots)
    for row, run in zip(ROWS, ran.runs, strict=True):
        machine = ended(row)
        assert (run.cycles, run.retired) == (cycles_of(machine, slots), machine.retired)
