"""The core lanes behind its bus: rows of a batch, lanes by number, status of all lanes, functions of the language."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from retrograd.hdl.bus.device import CoprocessorDriver, Ended
from retrograd.hdl.bus.links import SimulatedBus, UnfinishedRun
from retrograd.hdl.bus.register_map import HostRegister
from retrograd.hdl.parameters import Parameters
from retrograd.isa.diagnostics import InputError
from retrograd.isa.words import Format

import retrograd as rg
from retrograd.hardware import run_batch_on_hardware, run_on_hardware

Q16, Q32 = Format(16, 8), Format(32, 16)
#: y += n + … + 1, then 1 / d
PROGRAM = rg.assemble(
    """
    .format 16, 8
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


def device(lanes: int, w: Format = Q16) -> CoprocessorDriver:
    return CoprocessorDriver(SimulatedBus(Parameters(w, 64, 16, core="lanes", lanes=lanes)))


def masks(d: CoprocessorDriver) -> tuple[int, ...]:
    return tuple(
        d._read(slot) for slot in (HostRegister.RUNNING_LANES, HostRegister.HALTED_LANES, HostRegister.TRAPPED_LANES)
    )


def test_each_lane_has_a_row_an_end_and_a_status() -> None:
    d = device(3)
    assert (d.lanes, d.format) == (3, Q16)
    d.load_batch(PROGRAM, [[3, 256], [1, 0], [2, 512]])
    found = d.run_batch()
    assert [run.ended for run in found.lanes] == [Ended.HALTED, Ended.TRAPPED, Ended.HALTED]
    assert [run.code for run in found.lanes] == [None, "RG0402", None]
    assert [memory[2] for memory in d.memories()] == [6, 0, 3]
    assert masks(d) == (0, 0b101, 0b010)
    assert d._read(HostRegister.INTERRUPT_PENDING) == HostRegister.INTERRUPT_PENDING.field("trapped").mask
    # Each lane counts its own; the batch takes the cycles of the longest loop.
    alone, one = [], CoprocessorDriver(SimulatedBus(Parameters(Q16, 64, 16)))
    for row in ([3, 256], [2, 512]):
        one.load(PROGRAM, row)
        alone.append(one.run())
    assert [found.lanes[0], found.lanes[2]] == alone
    assert (found.cycles, found.issued) == (alone[0].cycles, alone[0].retired)
    # Back to the start: the lane that trapped goes back from there.
    d.turn()
    back = d.run_batch()
    assert [run.ended for run in back.lanes] == [Ended.HALTED] * 3
    assert [memory[:3] for memory in d.memories()] == [[3, 256, 0], [1, 0, 0], [2, 512, 0]]
    # One lane alone, for some steps.
    d.turn()
    d.select(1)
    assert d.run(4).retired == 4
    assert masks(d) == (0, 0b101, 0)
    assert [d._read(HostRegister.PC) for lane in range(3) if d.select(lane) is None] == [1, 5, 1]
    d.select(1)
    d.set_registers({9: 77})
    d.select()
    assert [d.registers()[9], d.run(0).retired] == [0, 0]
    d.select(1)
    assert d.registers()[9] == 77
    # More rows than lanes, and a lane that does not exist.
    for rows in ([], [[1]] * 4):
        with pytest.raises(InputError, match=r"the co-processor 3 lanes"):
            d.load_batch(PROGRAM, rows)
    with pytest.raises(InputError, match="the lane is 3"):
        d.select(3)
    with pytest.raises(InputError, match="the core lanes executes batches"):
        run_on_hardware(norm(), 0.0, 1.0, 1, core="lanes")


@pytest.mark.long
@pytest.mark.parametrize("transfers", [1, 5, 12])
def test_lanes_that_the_host_stops_go_on_later(transfers: int) -> None:
    """Stopped after some transfers, in the middle of a batch, and started again: each lane is the reference machine."""
    d = device(3)
    rows = [[20, 256, 0], [7, 128, 0], [33, 512, 0]]
    d.load_batch(PROGRAM, rows)
    d._command("run")
    for _ in range(transfers):
        assert d._read(HostRegister.RUNNING_LANES) == 0b111
    d._command("stop")
    d._finished()
    assert masks(d) == (0, 0, 0)
    machines = []
    for lane, row in enumerate(rows):
        d.select(lane)
        machine = rg.Machine(PROGRAM)
        machine.load(0, row)
        assert machine.run(d._read(HostRegister.RETIRED)).steps > 0
        assert Format(64, 32).signed(d._read(HostRegister.PC)) == machine.pc
        assert d.registers() == machine.registers
        machines.append(machine)
    d.select()
    assert [run.ended for run in d.run_batch().lanes] == [Ended.HALTED] * 3
    for machine, memory in zip(machines, d.memories(), strict=True):
        machine.run()
        assert memory == machine.memory


def norm() -> rg.functions.reversible.Reversible:
    @rg.reversible
    def counted(y: float, x: float, n: int) -> None:
        for _ in range(n):
            y += x * x

    return counted


@pytest.mark.parametrize("on_bus", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_function_on_a_batch(on_bus: bool) -> None:
    """Values and gradients are those of each element, in parts of as many elements as there are lanes."""
    f, x, n = norm(), np.array([0.5, 1.5, -2.0]), np.array([2, 0, 1])
    how = {"device": device(2, Q32)} if on_bus else {"lanes": 2, "format": Q32}
    found = run_batch_on_hardware(f, 1.0, x, n, in_axes=(None, 0, 0), loss="y", **how)  # type: ignore[arg-type]
    single = rg.run_batch(f, 1.0, x, n, in_axes=(None, 0, 0), format=Q32)
    assert found.values.y.tolist() == single.values.y.tolist() == [1.5, 1.0, 5.0]
    assert found.gradients.x.tolist() == rg.vmap(rg.grad(f, "x"), in_axes=(None, 0, 0), format=Q32)(1.0, x, n).tolist()
    assert found.gradients.x.tolist() == [2.0, 0.0, -4.0]
    assert max(found.steps) < found.issued < found.steps.sum()


@pytest.mark.long
def test_an_element_that_does_not_end_is_named() -> None:
    with pytest.raises(UnfinishedRun, match="of element 1 ended"):
        run_batch_on_hardware(norm(), np.zeros(2), np.array([0.5, 10.0]), np.array([1, 3]), format=Q16)
    with pytest.raises(UnfinishedRun, match="more than 9 instructions"):
        run_batch_on_hardware(norm(), np.zeros(1), np.ones(1), np.array([3]), format=Q16, max_steps=9)
    for lanes in (0, 65, 2.0, True):
        with pytest.raises(InputError, match="the number of lanes"):
            run_batch_on_hardware(norm(), np.zeros(1), np.ones(1), np.ones(1, int), lanes=lanes)  # type: ignore[arg-type]


#: module, the text there, the planted text
FAULTS = [
    ("core.lanes", "lane.window.write.eq(window.write & addressed)", "lane.window.write.eq(window.write)"),
    ("bus.host_interface", "halted.eq(halted & ~commanded)", "halted.eq(0)"),
    ("bus.host_interface", "running.eq(Mux(obeyed.step | (steps != 0), commanded, 0))", "running.eq(-1)"),
]


@pytest.mark.long
@pytest.mark.parametrize(("unit", "old", "new"), FAULTS)
def test_planted_faults_are_found(planted: Callable[[str, str, str], type], unit: str, old: str, new: str) -> None:
    planted(unit, old, new)
    with pytest.raises(AssertionError):
        test_each_lane_has_a_row_an_end_and_a_status()
